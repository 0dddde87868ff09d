"""The stock of invented words, lines and styles that jobs draw from."""
