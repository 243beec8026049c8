#include "base_model.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "adapters/separate.hpp"
#include "app/survey/survey.hpp"
#include "catalogue/catalogue.hpp"
#include "shardweld/error.hpp"

#include "framework_adapter.hpp"

namespace shardweld::app {

bool is_base_of_adapter(const Options& options, Destination sink,
                        const catalogue::Catalogue& checkpoint) {
    if (!options.base) {
        return false;
    }
    const bool is_adapter = adapters::holds_adapter_only(checkpoint);
    if (!is_adapter && sink == Destination::comparison) {
        throw Error(ErrorCode::usage,
                    "test takes --base only for checkpoints that hold nothing but a LoRA adapter: "
                    "this one has its own base",
                    "compare with another model by --test_hf_dir");
    }
    return is_adapter;
}

formats::InputRequest base_request(const Options& options) {
    formats::InputRequest request;
    request.directory = *options.base;
    request.backend = "hf";
    request.wants_model = true;
    request.check_crc = options.check_crc != CheckCrc::off;
    return request;
}

void add_base(Survey& survey, Survey base_survey) {
    catalogue::Catalogue& checkpoint = survey.catalogue;
    catalogue::Catalogue& base = base_survey.catalogue;
    if (base.dialect != checkpoint.dialect && !holds_framework_adapter(checkpoint)) {
        throw Error(ErrorCode::unsupported, "--base is a " + base.format + " model",
                    "give the HuggingFace model that the adapter was trained on");
    }
    put_files_behind(survey, base_survey);
    std::move(base.tensors.begin(), base.tensors.end(), std::back_inserter(checkpoint.tensors));
    std::move(base.shards.begin(), base.shards.end(), std::back_inserter(checkpoint.shards));
    std::move(base.notes.begin(), base.notes.end(), std::back_inserter(checkpoint.notes));
    std::move(base.ignored.begin(), base.ignored.end(), std::back_inserter(checkpoint.ignored));
    std::stable_sort(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                     [](const auto& a, const auto& b) { return a.name < b.name; });
}

}  // namespace shardweld::app
