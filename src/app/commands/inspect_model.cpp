#include "inspect_model.hpp"

#include <tuple>
#include <utility>

#include "app/family/bind_model.hpp"
#include "app/family/framework_adapter.hpp"
#include "app/messages/log.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// The model's files, or why there are none.
struct FilesFound {
    ModelFiles files;
    std::string obstacle;

    static constexpr auto fields = [](auto& self) { return std::tie(self.files, self.obstacle); };
};

FilesFound find_files(const Options& options, const Survey& survey, const ModelChoice& choice) {
    try {
        const bool is_alone = is_adapter_alone(choice.lora, survey.catalogue);
        return {read_model_files(options, {survey.location, {}, !is_alone}), ""};
    } catch (const Error& error) {
        return {{}, app::text_of(error)};
    }
}

std::string name_in(const ModelFiles& files) {
    const models::Config config = models::Config::parse(files.config_text, files.config_path);
    const auto classes = config.architectures();
    const std::string type = printable(config.text("model_type").value_or(""));
    return classes.empty() ? type
                           : printable(classes.front()) + (type.empty() ? "" : " (" + type + ")");
}

void bind_into(ModelSummary& summary, const ModelFiles& files, const ModelChoice& choice,
               const Options& options, catalogue::Catalogue catalogue) {
    summary.name = name_in(files);
    const PreparedModel prepared = prepare_with_adapter(files, choice, catalogue);
    summary.recipe = prepared.recipe->name;
    const Bound bound = bind_model(prepared, files, options, std::move(catalogue));
    for (const plan::Target& target : bound.binding.targets) {
        summary.parts.add(target.name, 1, target.dtype, target.bytes());
    }
}

}  // namespace

ModelSummary summarise_model(mpi::Comm& comm, const Options& options, Survey& survey) {
    const ModelChoice choice = model_choice(options, Destination::model);
    const FilesFound found =
        mpi::share(comm, survey.home, [&] { return find_files(options, survey, choice); });
    ModelSummary summary;
    summary.obstacle = found.obstacle;
    mpi::collectively(comm, [&] {
        if (comm.rank() != 0 || !summary.obstacle.empty()) {
            return;
        }
        try {
            bind_into(summary, found.files, choice, options, std::move(survey.catalogue));
        } catch (const Error& error) {
            summary.obstacle = app::text_of(error);
        }
    });
    return summary;
}

}  // namespace shardweld::app
