// The model that an adapter was trained on (--base), taken in beside a checkpoint that holds the
// adapter alone. Knows catalogues and visibility; nothing of names.
#pragma once

#include <optional>

#include "options.hpp"
#include "survey.hpp"

namespace shardweld::app {

/// Where --base is looked for: a HuggingFace model directory.
formats::Request base_request(const Options& options);

/// Puts the base's tensors and files into a checkpoint's catalogue; `directory` is where this rank
/// sees the base's files. Error(usage) when the checkpoint has a base of its own.
void add_base(catalogue::Catalogue& checkpoint, const fs::path& directory,
              catalogue::Catalogue base);

/// The same for a survey; the base's files keep their visibility.
void add_base(Survey& checkpoint, Survey base);

}  // namespace shardweld::app
