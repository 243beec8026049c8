#include "advice.hpp"

#include <fcntl.h>

#include "input_file.hpp"

namespace shardweld::io {

void read_in_pieces(const InputFile& file) {
    (void)::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_RANDOM);
}

}  // namespace shardweld::io
