"""What the pages read: each function makes a fixed number of queries, whatever the size of its answer."""
