"""The pages of the web app, one module each: its routes and its view data."""
