// What a checkpoint's tensors become: the model's targets, and an adapter's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outputs/format.hpp"
#include "plan/bind/quantise.hpp"
#include "reshape/optimizer.hpp"

#include "model.hpp"

namespace shardweld::app {

/// What the checkpoint's tensors become.
struct Bound {
    plan::Binding binding;  ///< the model's targets, and behind them a split adapter's
    std::vector<plan::Target>
        factors;                 ///< what folding or dequantising reads, in a file of their own
    std::string adapter_config;  ///< written beside a split adapter, "" if there is none
    bool has_model = true;       ///< false: only an adapter was saved
    std::optional<plan::Quantisation> quantisation;  ///< --quantize
    std::shared_ptr<const outputs::Format> output;   ///< made for this model; null: the option's
    std::string doubt = {};                          ///< catalogue::Optimizer::doubt
    std::string optimizer_text = {};  ///< optimizer.json beside its states; "": there are none
    std::optional<reshape::OptimizerToWrite> optimizer = {};  ///< of its states
    std::vector<std::string> notes;                           ///< for people
    std::string unheeded = {};  ///< an option that changes nothing here; "": there is none
};

}  // namespace shardweld::app
