// What to do where config.json does not describe what is stored.
#pragma once

namespace shardweld::plan {

inline constexpr const char* kConfigHint =
    "config.json is another model's or was changed: give the trained model's with --hf_config DIR";

}  // namespace shardweld::plan
