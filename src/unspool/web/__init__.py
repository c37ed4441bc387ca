"""The web app: pages, a JSON API and live events over the store."""
