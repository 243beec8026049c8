// The numbers of DeepSpeed-MoE's experts. A rank counts its own from 0; the files of experts count
// all of them. Knows names only. Source: DeepSpeed 0.19.8 deepspeed/runtime/engine.py
// (_save_moe_checkpoint).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/index.hpp"

namespace shardweld::formats::deepspeed {

class ExpertNumbers {
  public:
    /// A parameter as every rank calls its own.
    void note(const std::string& name);
    /// What files call that parameter of the expert-parallel rank `rank`; nullopt if it is no
    /// expert's.
    [[nodiscard]] std::optional<std::string> name_on(Index rank, const std::string& name) const;

  private:
    std::map<std::string, Index> n_local_;  // by what precedes the number
};

}  // namespace shardweld::formats::deepspeed
