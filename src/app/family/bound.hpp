// What a checkpoint's tensors become: the model's targets, and an adapter's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "outputs/format.hpp"
#include "plan/bind/quantise.hpp"
#include "reshape/optimizer.hpp"

#include "model.hpp"
#include "model_files.hpp"

namespace shardweld::app {

/// What the checkpoint's tensors become.
struct Bound {
    plan::Binding binding;  ///< the model's targets, and behind them a split adapter's
    std::vector<plan::Target>
        factors;  ///< what folding or dequantising reads, in a file of their own
    std::vector<plan::Target>
        normalised;              ///< weights whose norms a fold into parts of them needs (DoRA)
    std::string adapter_config;  ///< written beside a split adapter, "" if there is none
    bool has_model = true;       ///< false: only an adapter was saved
    std::optional<plan::Quantisation> quantisation;  ///< --quantize
    std::shared_ptr<const outputs::OutputFormat>
        output;                       ///< made for this model; null: the option's
    std::string doubt = {};           ///< catalogue::Optimizer::doubt
    bool is_ordered = false;          ///< catalogue::Optimizer::is_ordered
    std::string optimizer_text = {};  ///< optimizer.json beside its states; "": there are none
    std::optional<reshape::OptimizerToWrite> optimizer = {};  ///< of its states
    std::vector<std::string> notes;                           ///< for people
    std::vector<std::string> told = {};                       ///< notes on states and supplements
    std::string unheeded = {};  ///< an option that changes nothing here; "": there is none
};

/// A model whose tensors are bound.
struct BoundModel {
    ModelFiles files;
    PreparedModel prepared;
    Bound bound;
    std::vector<std::string> trace;  ///< --trace: what is stored of it
    /// What was bound: until it is known whether head and embedding are one, and then where it is
    /// bound in another form, too.
    std::optional<catalogue::Catalogue> kept;
};

}  // namespace shardweld::app
