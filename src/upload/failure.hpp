// What a failed client's words mean. Facts: the words of huggingface_hub 0.17 to 2.4, of the HTTP
// libraries below it and of hf_xet.
#pragma once

#include <string>
#include <string_view>

#include "shardweld/error.hpp"

namespace shardweld::upload {

struct UploadFailure {
    ErrorCode code = ErrorCode::interrupted;
    std::string what;  ///< "the Hub refused the token (401)"
};

/// What the last telling words in the client's output say; Error code interrupted when there are
/// none. Clients try again by themselves, so earlier words need not be the reason.
UploadFailure failure_of(std::string_view output);

}  // namespace shardweld::upload
