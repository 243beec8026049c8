// How far the Hub's client is, from the bars that it prints: one a file, or with Xet one for all.
// Only for people: what is not understood changes nothing. Source: huggingface_hub 1.33,
// lfs.py and utils/_xet_progress_reporting.py (tqdm's "LABEL:  42%|").
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::upload {

class ClientProgress {
  public:
    explicit ClientProgress(const fs::path& directory,
                            const std::vector<std::string>& kept_back = {});

    /// Bytes of all files.
    [[nodiscard]] Bytes total() const { return total_; }
    /// Bytes sent, after another line of the client; never fewer than before.
    Bytes read(std::string_view line);

  private:
    struct File {
        Bytes size = 0;
        Bytes sent = 0;
    };
    std::map<std::string, File, std::less<>> files_;
    Bytes total_ = 0;
    Bytes done_ = 0;
};

}  // namespace shardweld::upload
