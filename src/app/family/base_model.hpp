// The model that an adapter was trained on (--base), taken in beside a checkpoint that holds the
// adapter alone. Knows catalogues and visibility; nothing of names.
#pragma once

#include <optional>

#include "../cli/options.hpp"
#include "../survey/survey.hpp"
#include "model.hpp"

namespace shardweld::app {

/// Whether --base is the model of a checkpoint that holds an adapter alone; else a merge compares
/// with it. Error(usage) where another model is compared with.
bool is_base_of_adapter(const Options& options, Destination sink,
                        const catalogue::Catalogue& checkpoint);

/// Where --base is looked for: a HuggingFace model directory.
formats::InputRequest base_request(const Options& options);

/// Puts the base's tensors and files into a checkpoint's catalogue; `directory` is where this rank
/// sees the base's files. Error(unsupported) when the base has other names.
void add_base(catalogue::Catalogue& checkpoint, const fs::path& directory,
              catalogue::Catalogue base);

/// The same for a survey; the base's files keep their visibility.
void add_base(Survey& checkpoint, Survey base);

}  // namespace shardweld::app
