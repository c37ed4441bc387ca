"""The pages of the web app, one module each: its routes together with what they show."""
