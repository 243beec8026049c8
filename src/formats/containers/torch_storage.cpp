#include "torch_storage.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

// torch 2.15, torch/storage.py, _dtype_to_storage_type_map.
DType dtype_of_class(std::string_view class_name) {
    constexpr std::array<std::pair<std::string_view, DType>, 12> kClasses = {{
        {"FloatStorage", DType::f32},
        {"DoubleStorage", DType::f64},
        {"HalfStorage", DType::f16},
        {"BFloat16Storage", DType::bf16},
        {"LongStorage", DType::i64},
        {"IntStorage", DType::i32},
        {"ShortStorage", DType::i16},
        {"CharStorage", DType::i8},
        {"ByteStorage", DType::u8},
        {"BoolStorage", DType::boolean},
        {"ComplexFloatStorage", DType::c64},
        {"UntypedStorage", DType::u8},
    }};
    const std::size_t blank = class_name.find(' ');
    const std::string_view module = class_name.substr(0, blank);
    if (module == "torch" || module == "torch.storage" || module == "torch.cuda") {
        for (const auto& [name, dtype] : kClasses) {
            if (class_name.substr(blank + 1) == name) {
                return dtype;
            }
        }
    }
    throw Error(ErrorCode::unsupported,
                "torch file: storages of class '" + printable(class_name) + "' are not supported");
}

// Keys become names of records; one with a path in it is an attack.
bool is_plain_key(std::string_view key) {
    return !key.empty() && key.size() <= 255 && key != "." && key != ".." &&
           std::ranges::all_of(
               key, [](char c) { return c > ' ' && c != '/' && c != '\\' && c != '\x7f'; });
}

// Old torch counted keys as numbers' texts; a view is (its key, offset, size) or None.
std::optional<StorageId::View> read_view(const PickleValue& value) {
    if (value.kind == PickleKind::none) {
        return std::nullopt;
    }
    const auto parts = value.elements();
    if (value.kind != PickleKind::tuple || parts.size() != 3) {
        fail_torch("a storage's view is " + describe(value) + ", expected (key, offset, size)");
    }
    return StorageId::View{read_count(*parts[1], "the offset of a storage's view"),
                           read_count(*parts[2], "the size of a storage's view")};
}

}  // namespace

void fail_torch(const std::string& message) {
    throw Error(ErrorCode::corrupt, "torch file: " + message);
}

std::string describe(const PickleValue& value) {
    const std::string_view name = value.class_name();
    return name.empty() ? in_words(value.kind) : "'" + printable(name) + "'";
}

Index read_count(const PickleValue& value, std::string_view what) {
    if (value.kind == PickleKind::integer && value.integer >= 0) {
        return value.integer;
    }
    if (value.kind != PickleKind::integer) {
        throw Error(ErrorCode::corrupt,
                    std::string(what) + " is " + describe(value) + ", expected a number");
    }
    throw Error(ErrorCode::corrupt,
                std::string(what) + " is negative: " + std::to_string(value.integer));
}

StorageId StorageId::read(const PickleValue& persistent) {
    if (persistent.kind != PickleKind::persistent) {
        fail_torch("a tensor's storage is " + describe(persistent));
    }
    const PickleValue& id = *persistent.persistent_id();
    const auto parts = id.elements();
    const bool is_storage = id.kind == PickleKind::tuple && parts.size() >= 5 &&
                            parts[0]->is_text("storage") && parts[1]->kind == PickleKind::global;
    if (!is_storage) {
        fail_torch("a persistent id is not ('storage', class, key, location, count)");
    }
    StorageId storage;
    storage.dtype = dtype_of_class(parts[1]->text());
    storage.key = parts[2]->kind == PickleKind::text ? parts[2]->text() : std::string_view{};
    if (!is_plain_key(storage.key)) {
        fail_torch("storage key '" + printable(parts[2]->text()) + "' is not a plain record name");
    }
    storage.location = parts[3]->text();
    storage.count = read_count(*parts[4], "the size of a storage");
    if (parts.size() > 5) {
        storage.view = read_view(*parts[5]);
    }
    return storage;
}

bool is_parameter_call(std::string_view name) {
    constexpr std::array<std::string_view, 4> kNames = {
        "torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state",
        "torch.nn.parameter Parameter", "torch.nn Parameter"};
    return contains(kNames, name);
}

const PickleValue& without_parameter(const PickleValue& value) {
    constexpr int kMostWraps = 16;
    const PickleValue* inner = &value;
    for (int i = 0;
         i < kMostWraps && is_parameter_call(inner->class_name()) && !inner->arguments().empty();
         ++i) {
        inner = inner->arguments().front();
    }
    return *inner;
}

bool is_subclass_call(std::string_view name) {
    constexpr std::array<std::string_view, 4> kNames = {
        "torch._tensor _rebuild_from_type_v2", "torch._tensor _rebuild_from_type",
        "torch.tensor _rebuild_from_type", "torch _rebuild_from_type_v2"};
    return contains(kNames, name);
}

}  // namespace shardweld::formats
