// What `shardweld inspect` shows people.
// Knows what was found of a checkpoint and how to show it; looks for nothing.
#pragma once

#include <string>

#include "app/settings/options.hpp"
#include "app/survey/survey.hpp"

#include "inspect_model.hpp"

namespace shardweld::app {

/// Everything that is shown of a catalogue, kept while that becomes a model.
struct InspectedFiles {
    std::string head;     ///< directory, format, files, facts
    std::string ranks;    ///< their grid
    std::string tensors;  ///< the tree, or every row
    std::string ignored;
    ModelParts stored;
    bool has_local = false;  ///< shards are still to be joined: some may be copies
};
InspectedFiles look_at(const Survey& survey, const Options& options);

/// The whole text, which ends with the command that merges the checkpoint.
std::string inspect_text(const InspectedFiles& files, const ModelSummary& model,
                         const Options& options);

/// What stands in all notes of a location and its catalogue, each once.
std::vector<std::string> all_notes(const formats::Location& location,
                                   const catalogue::Catalogue& catalogue);

}  // namespace shardweld::app
