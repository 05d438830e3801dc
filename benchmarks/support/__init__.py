"""What benchmarks share; none of these files is a benchmark."""
