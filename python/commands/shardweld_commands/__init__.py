"""The commands of shardweld that orchestrate, explain or judge: they read what the program prints as JSON, never tensors at its side."""
