// What the kernel is told of how a file will be read.
#pragma once

namespace shardweld::io {

class InputFile;

/// Small pieces here and there, through this descriptor: the kernel brings in what is asked for
/// and nothing ahead of it. Never fails.
void read_in_pieces(const InputFile& file);

}  // namespace shardweld::io
