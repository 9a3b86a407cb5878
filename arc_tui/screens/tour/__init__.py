"""The guided tour: six stops over the bundled runs."""
