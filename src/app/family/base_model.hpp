// The model that an adapter was trained on (--base), taken in beside a checkpoint that holds the
// adapter alone. Knows catalogues and visibility; nothing of names.
#pragma once

#include <optional>

#include "app/settings/options.hpp"
#include "app/survey/survey.hpp"

#include "model.hpp"

namespace shardweld::app {

/// Whether --base is the model of a checkpoint that holds an adapter alone; else a merge compares
/// with it. Error(usage) where another model is compared with.
bool is_base_of_adapter(const Options& options, Destination sink,
                        const catalogue::Catalogue& checkpoint);

/// Where --base is looked for: a HuggingFace model directory.
formats::InputRequest base_request(const Options& options);

/// Puts the base's tensors and files into a checkpoint's survey; the files keep their visibility.
/// Error(unsupported) when the base has other names.
void add_base(Survey& checkpoint, Survey base);

}  // namespace shardweld::app
