// What a merge says: the model, what was written of it, and what to do next.
#pragma once

#include <string>
#include <vector>

#include "app/messages/log.hpp"
#include "plan/binding.hpp"

#include "report.hpp"

namespace shardweld::app {

/// How large the model is that these make.
ModelSize size_of_model(const plan::Targets& targets);

/// "model: Qwen3ForCausalLM, 188,800 parameters, bfloat16".
Headline model_line(const std::string& model_class, const ModelSize& size);

/// What was written, and, unless it is an output beside the first, what to do next. `checksums`:
/// "77 of 77 input checksums match".
std::vector<Headline> summary_lines(const RunReport& run, const OutputReport& report,
                                    const std::vector<Phase>& phases, const std::string& checksums);

/// How fast, by how many ranks, from how many files; for who wants to know more.
std::string speed_text(const RunReport& run, const OutputReport& report,
                       const std::vector<Phase>& phases);

/// What merge --json prints of a whole run.
std::string merged_json(const RunReport& run, const std::vector<Phase>& phases);

/// {"event": "summary", ...}, for programs.
std::string summary_json(const RunReport& run, const OutputReport& report,
                         const std::vector<Phase>& phases);

}  // namespace shardweld::app
