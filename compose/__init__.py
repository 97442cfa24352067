"""The app-compose document of the eval CVM, its hash and measurements.lock."""
