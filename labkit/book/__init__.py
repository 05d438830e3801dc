"""The book: every notebook run with a profile's parameters, each in a kernel of its own."""
