#include "append_file.hpp"

#include <algorithm>
#include <cstring>

#include "io/output_file.hpp"

namespace shardweld::bench {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20U;

}  // namespace

AppendFile::AppendFile(const std::filesystem::path& path)
    : file_(io::OutputFile::create(path)), buffer_(kBufferBytes) {}

void AppendFile::flush() {
    if (used_ != 0) {
        file_.write_at(flushed_, std::span(buffer_).first(used_));
        flushed_ += used_;
        used_ = 0;
    }
}

std::span<std::byte> AppendFile::room() {
    if (used_ == buffer_.size()) {
        flush();
    }
    return std::span(buffer_).subspan(used_);
}

void AppendFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto free = room();
        const std::size_t n = std::min(free.size(), bytes.size());
        std::memcpy(free.data(), bytes.data(), n);
        commit(n);
        bytes = bytes.subspan(n);
    }
}

void AppendFile::write(std::string_view text) {
    write(std::as_bytes(std::span(text)));
}

void AppendFile::skip(Bytes size) {
    flush();
    flushed_ += size;
}

void AppendFile::close() {
    flush();
    file_.resize(flushed_);
    file_.close();
}

}  // namespace shardweld::bench
