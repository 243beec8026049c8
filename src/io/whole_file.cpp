#include "whole_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/error.hpp"

#include "directory.hpp"
#include "errno.hpp"
#include "input_file.hpp"
#include "output_file.hpp"

namespace shardweld::io {

namespace {

void require_small(const InputFile& file, Bytes limit) {
    if (file.size() > limit) {
        throw Error(ErrorCode::corrupt, file.path().string() + " has " +
                                            std::to_string(file.size()) + " bytes; at most " +
                                            std::to_string(limit) + " are expected of such a file");
    }
}

}  // namespace

ByteBuffer read_bytes(const fs::path& path, Bytes limit) {
    const InputFile file = InputFile::open(path);
    require_small(file, limit);
    ByteBuffer bytes(to_size(file.size(), "a file's size"));
    file.read_at(0, bytes);
    file.require_unchanged();
    return bytes;
}

std::string text_of(const InputFile& file, Bytes limit) {
    require_small(file, limit);
    std::string text(to_size(file.size(), "a file's size"), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    file.require_unchanged();
    return text;
}

std::string read_text(const fs::path& path, Bytes limit) {
    return text_of(InputFile::open(path), limit);
}

void write_text(const fs::path& path, const std::string& text, bool sync) {
    OutputFile file = OutputFile::open_or_create(path);
    struct stat status {};
    const bool is_empty = ::fstat(file.fd(), &status) == 0 && status.st_size == 0;
    // ext4 sends a truncated file to the disk when it is closed, behind all that waits there.
    if (!is_empty) {
        file.resize(0);
    }
    file.write_at(0, std::as_bytes(std::span(text)));
    if (sync) {
        file.sync();
    }
    file.close();
}

void sync_directory(const fs::path& path) {
    const int fd =
        retried([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) {
        throw_errno(errno, "open directory", path);
    }
    sync_and_close(fd, path);
}

}  // namespace shardweld::io
