// What a merge says: the model, what was written of it, and what to do next.
#pragma once

#include <string>
#include <vector>

#include "app/messages/log.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "plan/binding.hpp"

#include "report.hpp"

namespace shardweld::app {

/// How large a model is, whatever it is written as.
struct ModelSize {
    Index parameters = 0;       ///< of the model; scales of codes are none
    Index adapter = 0;          ///< of an adapter that is written beside it
    std::size_t states = 0;     ///< tensors of an optimizer that are written beside it
    std::size_t n_encoded = 0;  ///< weights that are written as codes
    std::string encoding;       ///< of these, "" for none
    std::vector<DType> dtypes;  ///< of all others, that of most bytes first

    /// "155,584 parameters, bfloat16".
    [[nodiscard]] std::string text() const;
};
ModelSize size_of_model(const std::vector<plan::Target>& targets);

/// "model: Qwen3ForCausalLM, 188,800 parameters, bfloat16".
Headline model_line(const std::string& model_class, const ModelSize& size);

/// What the report does not say.
struct Finished {
    fs::path target;
    std::string form;         ///< of an output beside the first: "fp8-channel"; else ""
    std::string format;       ///< of its files: "safetensors", ...
    std::string model_class;  ///< "" if config.json names none
    ModelSize size;
    std::string checksums;  ///< "77 of 77 input checksums match"
    bool keeps_report = false;
};

/// What was written, and, unless it is an output beside the first, what to do next.
std::vector<Headline> summary_lines(const RunReport& run, const OutputReport& report,
                                    const std::vector<Phase>& phases, const Finished& finished);

/// How fast, by how many ranks, from how many files; for who wants to know more.
std::string speed_text(const RunReport& run, const OutputReport& report,
                       const std::vector<Phase>& phases);

/// What merge --json prints of a whole run.
std::string merged_json(const RunReport& run, const std::vector<Phase>& phases);

/// {"event": "summary", ...}, for programs.
std::string summary_json(const RunReport& run, const OutputReport& report,
                         const std::vector<Phase>& phases, const Finished& finished);

}  // namespace shardweld::app
