#include "model_values.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <vector>

#include "core/text.hpp"
#include "formats/containers/torch_storage.hpp"
#include "shardweld/error.hpp"

#include "module_names.hpp"
#include "neighbour_names.hpp"

namespace shardweld::formats {

namespace {

constexpr const char* kSavePlain =
    "save tensors of plain elements: of a class of its own, what its dequantize() or full_tensor() "
    "gives; what is no weight belongs outside the model's dictionary";

constexpr std::size_t kLongestKey = 60;

bool is_numpy_scalar(std::string_view class_name) {
    return class_name.starts_with("numpy") && class_name.ends_with(" scalar");
}

/// Pickled as a few bytes, which are no weights.
bool is_single(std::string_view class_name) {
    return is_numpy_scalar(class_name) || class_name.starts_with("datetime ");
}

bool is_real(const PickleValue& value) {
    return value.kind == PickleKind::real || value.kind == PickleKind::big_integer ||
           is_numpy_scalar(value.class_name());
}

/// The storages of one value, each counted once however many tensors view it.
class Storages {
  public:
    explicit Storages(const TorchFile& file) : file_(file) {}
    Bytes new_bytes(const PickleValue& persistent) {
        const auto parts = persistent.persistent_id()->elements();
        const bool is_new = parts.size() > 2 && seen_.insert(parts[2]->text()).second;
        return is_new ? file_.storage_bytes(persistent) : 0;
    }

  private:
    const TorchFile& file_;
    std::unordered_set<std::string_view> seen_;
};

/// Adds the value itself; its parts are the caller's.
void add_own(const PickleValue& value, Storages& storages, Contents& contents) {
    const bool is_byte_array = value.class_name().ends_with(" bytearray");
    if (value.kind == PickleKind::persistent) {
        contents.has_storages = true;
        contents.bytes = checked_add_bytes(contents.bytes, storages.new_bytes(value), "bytes");
    } else if ((value.kind == PickleKind::bytes && value.size > 0) || is_byte_array) {
        contents.has_bytes = true;
        contents.bytes = checked_add_bytes(contents.bytes, value.text().size(), "bytes");
    }
    contents.has_integers = contents.has_integers || value.kind == PickleKind::integer;
    contents.has_reals = contents.has_reals || is_real(value);
}

/// What lies directly below a value; keys name things and are none.
template <typename Add>
void for_each_part(const PickleValue& value, const Add& add) {
    for (const auto parts : {value.elements(), value.arguments()}) {
        for (const PickleValue* const part : parts) {
            add(part);
        }
    }
    for (const PickleValue* const part : {value.callee(), value.state()}) {
        if (part != nullptr) {
            add(part);
        }
    }
    for (const auto& [key, part] : value.pairs()) {
        add(&part);
    }
}

bool is_container(const PickleValue& value) {
    return value.is_mapping() || value.is_list() || value.kind == PickleKind::set;
}

/// Whether its class is one whose instances could be anything.
bool is_of_own_class(const PickleValue& value) {
    return value.kind == PickleKind::object && !is_container(value) &&
           value.class_name() != "_io BytesIO";
}

bool may_be_weight(std::string_view name, const PickleValue& value, const Contents& contents) {
    if (is_extra_state(name) || is_training_only(name)) {
        return false;
    }
    const bool is_stored = contents.has_storages || contents.has_bytes;
    if (!has_part(name, '.')) {
        return is_stored;
    }
    const bool is_number =
        contents.has_reals || (contents.has_integers && is_called_as_weight(name));
    const bool is_named_so = is_container(value) && is_called_as_weight(name);
    return is_stored || is_number || is_named_so || is_of_own_class(value);
}

}  // namespace

std::string words_for(const PickleValue& value) {
    const PickleValue& inner = without_parameter(value);
    if (is_subclass_call(inner.class_name()) && inner.arguments().size() > 1) {
        return "of class " + describe(*inner.arguments()[1]);
    }
    if (inner.kind == PickleKind::object && !is_container(inner)) {
        return "made by " + describe(inner);
    }
    return inner.kind == PickleKind::bytes                       ? "a byte string"
           : inner.kind == PickleKind::integer || is_real(inner) ? "a number"
                                                                 : in_words(inner.kind);
}

void refuse_value(const PickleValue& value, bool holds_tensors) {
    throw Error(ErrorCode::unsupported,
                "it is " + words_for(value) +
                    (holds_tensors && is_container(value) ? " that holds a tensor" : "") +
                    ", where a tensor of plain elements is expected",
                kSavePlain);
}

std::string_view parameter_name(const PickleValue& key) {
    constexpr std::size_t kLongestName = 1024;
    const std::string_view text = key.text();
    const bool is_text = key.kind == PickleKind::text;
    if (!is_text || text.empty() || text.size() > kLongestName || !is_utf8(text)) {
        const bool is_damaged = is_text && !text.empty();
        throw Error(ErrorCode::corrupt,
                    "its model has a key that is not a name: " +
                        (is_text ? "\"" + printable(text, kLongestKey) + "\""
                         : key.kind == PickleKind::integer ? std::to_string(key.integer)
                         : text.empty()                    ? words_for(key)
                                        : words_for(key) + " " + printable(text, kLongestKey)),
                    is_damaged ? ""
                               : "save the model's own state_dict(), in which every tensor has a "
                                 "name");
    }
    return text;
}

bool is_called_as_weight(std::string_view name) {
    constexpr std::array<std::string_view, 4> kEnds = {"weight", "bias", "scale", "scale_inv"};
    name = name.substr(0, name.find_last_not_of(".0123456789") + 1);
    return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

bool may_be_part(std::string_view name, DType dtype, std::span<const Index> shape,
                 const std::function<bool(std::string_view)>& is_models) {
    if (!is_called_as_weight(name) || !is_float(dtype) || volume_of(shape, "a shape") < 2) {
        return false;
    }
    for (std::string_view end = name;;) {
        if (is_models(end)) {
            return false;
        }
        const std::size_t dot = end.find('.');
        if (dot == std::string_view::npos) {
            return true;
        }
        end.remove_prefix(dot + 1);
    }
}

void refuse_part(const std::string& name, const std::string& hint) {
    throw Error(ErrorCode::unsupported,
                "tensor " + printable(name) +
                    " lies beside the model's dictionary, but is called as a part of it is, and "
                    "the model has none of that name",
                hint);
}

Contents ModelValues::contents_of(const PickleValue& value) {
    Contents contents;
    Storages storages(file_);
    std::unordered_set<const PickleValue*> seen = {&value};
    std::vector<const PickleValue*> todo = {&value};
    while (!todo.empty()) {
        const PickleValue* const next = todo.back();
        todo.pop_back();
        require_more_values();
        add_own(*next, storages, contents);
        if (is_single(next->class_name())) {
            continue;
        }
        for_each_part(*next, [&](const PickleValue* part) {
            if (seen.insert(part).second) {
                todo.push_back(part);
            }
        });
    }
    return contents;
}

void ModelValues::leave_aside(std::string_view name, const PickleValue& value) {
    const Contents contents = contents_of(value);
    if (may_be_weight(name, value, contents)) {
        refuse_value(value, contents.has_storages);
    }
    ignored_.add({pattern_of(printable(name)), "not a tensor"}, 1, contents.bytes);
}

void ModelValues::require_no_part(std::string_view key, const PickleValue& value,
                                  const std::function<bool(std::string_view)>& is_models) {
    if (is_training_only(key)) {
        return;
    }
    if (const auto part = part_in(std::string(key), value, is_models, 0)) {
        refuse_part(*part, "save it in the model's dictionary");
    }
}

void ModelValues::leave_beside(std::string_view key, const PickleValue& value,
                               const std::function<bool(std::string_view)>& is_models) {
    require_no_part(key, value, is_models);
    leave_aside(key.substr(0, kLongestKey), value, "training state");
}

std::optional<std::string> ModelValues::part_in(
    const std::string& name, const PickleValue& value,
    const std::function<bool(std::string_view)>& is_models, int depth) {
    constexpr int kDeepest = 12;
    const auto parts = value.elements();
    for (std::size_t i = 0; i < parts.size() && depth < kDeepest; ++i) {
        require_more_values();
        if (auto part = part_in(name + "." + std::to_string(i), *parts[i], is_models, depth + 1)) {
            return part;
        }
    }
    if (!value.is_mapping()) {
        const auto stored = is_called_as_weight(name) ? file_.tensor(value) : std::nullopt;
        const bool is_part = stored && may_be_part(name, stored->dtype, stored->shape, is_models);
        return is_part ? std::optional(name) : std::nullopt;
    }
    for (std::size_t i = 0; i < value.pair_count() && depth < kDeepest; ++i) {
        require_more_values();
        const std::string below = name + "." + std::string(value.key(i).text());
        if (auto part = part_in(below, value.value(i), is_models, depth + 1)) {
            return part;
        }
    }
    return std::nullopt;
}

void ModelValues::require_more_values() {
    if (values_left_ == 0) {
        throw Error(ErrorCode::corrupt, "its values are shared more often than any file's");
    }
    --values_left_;
}

void ModelValues::leave_aside(std::string_view name, const PickleValue& value,
                              const std::string& reason) {
    ignored_.add({pattern_of(printable(name)), reason}, 1, contents_of(value).bytes);
}

}  // namespace shardweld::formats
