// Runs of the Hub's client: what they are given, and what they say.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "process/process.hpp"

#include "failure.hpp"

namespace shardweld::upload {

/// No question about new versions, no colours, no held-back output.
std::vector<std::string> quiet_environment();

/// The end of what a client said, and the line that tells most.
class ClientOutput {
  public:
    /// Process::on_line: takes each line, its secrets replaced, and hands it on to `on_line`, which
    /// may be empty. Both must outlive the process.
    std::function<void(std::string_view)> listener(
        const std::vector<std::string>& secrets,
        const std::function<void(std::string_view)>& on_line = {});

    [[nodiscard]] const std::string& text() const { return text_; }
    /// "; the client says: " and its last error, else its last line; "" where it said nothing.
    [[nodiscard]] std::string words() const;

  private:
    void add(const std::string& line);

    std::string text_;
    std::string error_;
    std::string last_;
};

/// Why a client that did not succeed failed. To be asked right behind process::run(), which sets
/// errno.
UploadFailure failure_of_ending(const std::optional<process::Ending>& ending,
                                const ClientOutput& output);

}  // namespace shardweld::upload
