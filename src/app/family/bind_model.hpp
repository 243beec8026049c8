// What becomes of a checkpoint's tensors: the model's, and an adapter's, which is written beside it
// or folded into it, as --lora says.
#pragma once

#include <memory>
#include <optional>

#include "adapters/separate.hpp"
#include "outputs/format.hpp"
#include "plan/bind/quantise.hpp"

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
    std::vector<std::string> notes;                  ///< for people
    std::string unheeded = {};  ///< an option that changes nothing here; "": there is none
};

/// Binds base and adapter. Pure; `catalogue` moves into the result. Error(usage) where the options
/// leave nothing to write or no base to fold into; else as plan::bind, adapters::separate, settle
/// and attach.
Bound bind_model(const PreparedModel& prepared, const ModelFiles& files, const Options& options,
                 catalogue::Catalogue catalogue);

}  // namespace shardweld::app
