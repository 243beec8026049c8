#include "stored_objects.hpp"

#include <array>
#include <cstddef>
#include <optional>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "model_values.hpp"
#include "module_names.hpp"

namespace shardweld::formats {

namespace {

[[noreturn]] void refuse_unseen(const std::string& what) {
    throw Error(ErrorCode::unsupported,
                "it is stored as an object, not as a tensor, and " + what +
                    ": whether it is a weight is not known",
                "save it as a tensor, or leave it out of the model's dictionary");
}

bool is_archive(const io::InputFile& file, const ObjectPlace& place) {
    std::array<std::byte, 2> head{};
    if (place.length < head.size() || place.offset > file.size() - head.size()) {
        return false;
    }
    file.read_at(place.offset, head);
    return head[0] == std::byte{'P'} && head[1] == std::byte{'K'};
}

void require_no_weight(const Location& location, const ObjectPlace& place,
                       const std::string& name) {
    if (!io::is_file(location.directory / place.file)) {
        refuse_unseen("the file that holds it is not here");
    }
    const auto input = io::InputFile::open(location.directory / place.file);
    if (!is_archive(input, place)) {
        refuse_unseen("it is no archive of torch.save");
    }
    const auto archive = TorchFile::read(input, place.offset, place.length, location.check_crc);
    const PickleValue& value = only_element_of(archive.root());
    if (archive.tensor(value)) {
        throw Error(ErrorCode::unsupported,
                    "it is a tensor that is stored as an object, which is not read",
                    "save it as a tensor");
    }
    IgnoredRows rows;
    ModelValues(archive, rows).leave_aside(name, value);
}

}  // namespace

const PickleValue& only_element_of(const PickleValue& root) {
    return root.kind == PickleKind::list && root.elements().size() == 1 ? *root.elements().front()
                                                                        : root;
}

void require_no_part(const TorchFile& file, const PickleValue& state) {
    IgnoredRows rows;
    ModelValues values(file, rows);
    for (std::size_t i = 0; i < state.pair_count(); ++i) {
        values.require_no_part(state.key(i).text(), state.value(i),
                               [](std::string_view /*name*/) { return false; });
    }
}

void require_no_part(const Location& location, const ObjectPlace& place, const std::string& name) {
    const fs::path path = location.directory / place.file;
    if (place.length == 0 || !io::is_file(path)) {
        return;
    }
    const auto input = io::InputFile::open(path);
    if (!is_archive(input, place)) {
        return;
    }
    const auto archive = TorchFile::read(input, place.offset, place.length, location.check_crc);
    IgnoredRows rows;
    try {
        ModelValues(archive, rows)
            .require_no_part(name, only_element_of(archive.root()),
                             [](std::string_view /*name*/) { return false; });
    } catch (Error& error) {
        error.add_context("file " + printable(place.file));
        throw;
    }
}

void leave_aside_object(const Location& location, const ObjectPlace& place, const std::string& name,
                        IgnoredRows& ignored) {
    const bool is_state = is_extra_state(name);
    if (!is_state && place.length > 0) {
        try {
            require_no_weight(location, place, name);
        } catch (Error& error) {
            error.add_context("tensor " + printable(name));
            error.add_context("file " + printable(place.file));
            throw;
        }
    }
    ignored.add({pattern_of(printable(name)), is_state ? "extra state" : "not a tensor"}, 1,
                place.length);
}

}  // namespace shardweld::formats
