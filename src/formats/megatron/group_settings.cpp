#include "group_settings.hpp"

#include <utility>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/scalar_value.hpp"
#include "formats/shared/settings.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::megatron {

void add_group_settings(const Location& location, std::string_view name, const ObjectPlace& place,
                        GroupClaims& groups, StepClaims& steps) {
    const std::size_t group = name.find("dp_group_idx_");
    if (group == std::string_view::npos) {
        return;
    }
    if (name.ends_with(".param_state")) {
        throw Error(
            ErrorCode::unsupported,
            "the optimizer's state is kept as one object for each group of ranks (" +
                printable(name) + "), which is not read",
            kWeightsOnly + std::string(", or save once with --dist-ckpt-optim-fully-reshardable"));
    }
    const fs::path path = location.directory / place.file;
    if (!name.ends_with(".optimizer") || place.length == 0 || !io::is_file(path)) {
        return;
    }
    in_context(printable(name) + " in ", place.file, [&] {
        const auto input = io::InputFile::open(path);
        const TorchFile opened = TorchFile::read(input, place.offset, place.length);
        const PickleValue& root = only_element_of(opened.root());
        if (root.is_mapping()) {
            auto stated = groups_of(root.find("param_groups"), ScalarReader(opened, input));
            steps.add(stated, printable(name));
            groups.add(std::string(name.substr(0, group)), std::move(stated), printable(name));
        }
    });
}

}  // namespace shardweld::formats::megatron
