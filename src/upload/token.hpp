// Where the client takes its token from. Facts: huggingface_hub's variables and files (2.4:
// constants.py, utils/_auth.py).
#pragma once

#include <string>
#include <vector>

#include "request.hpp"

namespace shardweld::upload {

struct Tokens {
    bool is_present = false;
    std::vector<std::string> values;  ///< to be hidden
    fs::path file;                    ///< where a token would lie that `hf auth login` wrote
};

/// What HF_TOKEN, HUGGING_FACE_HUB_TOKEN and the token file (HF_TOKEN_PATH, else in HF_HOME, else
/// in the user's cache) hold. A file that cannot be read holds nothing.
Tokens find_tokens(const Environment& environment);

}  // namespace shardweld::upload
