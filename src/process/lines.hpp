// Cuts a stream of bytes into lines of bounded length.
// Knows line ends only.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace shardweld::process {

/// Hands out each line once, at its end (LF or CR); of a longer one the first kMost bytes; none
/// that are empty.
class Lines {
  public:
    static constexpr std::size_t kMost = 65536;

    explicit Lines(std::function<void(std::string_view)> take) : take_(std::move(take)) {}

    void add(std::string_view bytes) {
        for (const char byte : bytes) {
            if (byte == '\n' || byte == '\r') {
                finish();
            } else if (line_.size() < kMost) {
                line_ += byte;
            }
        }
    }

    /// Hands out what has no end yet.
    void finish() {
        if (!line_.empty()) {
            take_(line_);
            line_.clear();
        }
    }

  private:
    std::function<void(std::string_view)> take_;
    std::string line_;
};

}  // namespace shardweld::process
