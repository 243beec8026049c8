// A file descriptor that is closed when nobody has it any more.
#pragma once

#include <cerrno>
#include <utility>

#include <unistd.h>

namespace shardweld::io {

/// Owns a descriptor; -1: none. Closing it leaves errno as it is. Move-only.
class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) {
            const int error = errno;
            ::close(fd_);
            errno = error;
        }
    }

    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] bool is_open() const { return fd_ >= 0; }
    /// Gives it away, not closed.
    int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

}  // namespace shardweld::io
