// Files of tensors that lie below a model's directory, beside the model.
#pragma once

#include <string>

namespace shardweld::app {

/// The file that a tensor's is, if it is an adapter's or a state's, whose tensors may have the
/// names of the model's; "" of any other. Pure.
std::string file_beside(const std::string& file);

}  // namespace shardweld::app
