"""Files that are whole or not there: reading without trust, writing without loss, locks."""
