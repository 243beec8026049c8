// Tensors of a torch file: from the pickled call to a strided view of raw bytes.
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "torch_file.hpp"
#include "torch_storage.hpp"

namespace shardweld::formats {

namespace {

[[noreturn]] void refuse_torch(const std::string& message) {
    throw Error(ErrorCode::unsupported, "torch file: " + message);
}

/// A pickled call: the function and what it is given.
struct Call {
    const PickleValue* function = nullptr;
    PickleValues arguments;
};

// torch 2.15, torch/_utils.py.
bool is_plain_tensor(std::string_view name) {
    return name == "torch._utils _rebuild_tensor" || name == "torch._utils _rebuild_tensor_v2" ||
           name == "torch._utils _rebuild_tensor_v3";
}

// Everything else under these names is a tensor, but not one of plain bytes.
bool is_other_tensor(std::string_view name) {
    return name.starts_with("torch._utils _rebuild_") &&
           name != "torch._utils _rebuild_wrapper_subclass";
}

// Peels parameters and subclasses off; an empty call when `value` is not a tensor.
Call unwrap(const PickleValue& value) {
    // Hostile pickles hold cycles; honest ones wrap a tensor twice at most.
    constexpr int kMaxWraps = 16;
    Call call;
    const auto enter = [&call](const PickleValue& object) {
        call = {object.callee(), object.arguments()};
        return call.function != nullptr;
    };
    if (!enter(value)) {
        return {};
    }
    for (int i = 0; i < kMaxWraps; ++i) {
        const std::string_view name = call.function->class_name();
        if (is_plain_tensor(name)) {
            return call;
        }
        if (is_parameter_call(name)) {
            if (call.arguments.empty() || !enter(*call.arguments.front())) {
                fail_torch("a parameter holds no tensor");
            }
        } else if (is_subclass_call(name)) {
            const bool is_whole =
                call.arguments.size() >= 3 && call.arguments[2]->kind == PickleKind::tuple;
            if (!is_whole) {
                fail_torch("a tensor subclass is not (function, type, arguments, state)");
            }
            call = {call.arguments[0], call.arguments[2]->elements()};
        } else if (is_other_tensor(name)) {
            return call;
        } else {
            return {};
        }
    }
    fail_torch("a tensor is wrapped more than " + std::to_string(kMaxWraps) + " times");
}

// The lazy bits of torch's conj() and of a conjugate's imaginary part: {"conj": True}.
void refuse_lazy_bits(const PickleValue& metadata) {
    constexpr std::size_t kMostBits = 8;
    const std::size_t n_bits = metadata.pair_count();
    if (n_bits > kMostBits) {
        fail_torch("a tensor has " + std::to_string(n_bits) + " entries of metadata");
    }
    for (std::size_t i = 0; i < n_bits; ++i) {
        if (metadata.value(i).kind == PickleKind::boolean && metadata.value(i).integer != 0) {
            refuse_torch("a tensor is stored with its bit '" +
                         printable(metadata.key(i).text(), 40) +
                         "' set, so that its bytes are not its values; resolve it before saving "
                         "(resolve_conj, resolve_neg)");
        }
    }
}

void read_counts(const PickleValue& value, std::string_view what, std::vector<Index>& counts) {
    if (!value.is_list() && value.class_name() != "torch Size") {
        fail_torch(std::string(what) + " is " + describe(value) + ", expected a tuple");
    }
    const auto elements = value.elements();
    counts.clear();
    counts.reserve(elements.size());
    for (const PickleValue* const element : elements) {
        counts.push_back(read_count(*element, what));
    }
}

// Elements from the storage's start to behind the tensor's last element; 0 for an empty tensor.
Index needed_elements(const StoredTensor& tensor) {
    constexpr std::string_view kWhat = "a tensor's extent in its storage";
    if (tensor.volume() == 0) {
        return 0;
    }
    Index last = tensor.element_offset;
    for (const std::size_t axis : indices(tensor.shape)) {
        last = checked_add(last, checked_mul(tensor.shape[axis] - 1, tensor.strides[axis], kWhat),
                           kWhat);
    }
    return checked_add(last, 1, kWhat);
}

void check_fits(const StoredTensor& tensor, std::string_view key) {
    const Bytes needed = checked_mul_bytes(to_bytes(needed_elements(tensor), "a tensor's extent"),
                                           size_of(tensor.dtype), "a tensor's bytes");
    if (needed > tensor.storage_bytes) {
        fail_torch("a tensor of shape " + shape_text(tensor.shape) + ", strides " +
                   shape_text(tensor.strides) + " at element " +
                   std::to_string(tensor.element_offset) + " needs " + std::to_string(needed) +
                   " bytes; storage '" + printable(key) + "' has " +
                   std::to_string(tensor.storage_bytes));
    }
}

}  // namespace

Index StoredTensor::volume() const {
    return volume_of(shape, "a tensor's shape");
}

bool StoredTensor::is_contiguous() const {
    Index expected = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        if (shape[axis] != 1 && strides[axis] != expected) {
            return volume() == 0;
        }
        expected = checked_mul(expected, shape[axis], "a tensor's shape");
    }
    return true;
}

std::optional<StoredTensor> TorchFile::tensor(const PickleValue& value) const {
    StoredTensor tensor;
    return read_tensor(value, tensor) ? std::optional(std::move(tensor)) : std::nullopt;
}

bool TorchFile::read_tensor(const PickleValue& value, StoredTensor& tensor) const {
    const Call call = unwrap(value);
    if (call.function == nullptr) {
        return false;
    }
    rebuild(*call.function, call.arguments, tensor);
    return true;
}

void TorchFile::rebuild(const PickleValue& function, PickleValues arguments,
                        StoredTensor& tensor) const {
    const std::string_view name = function.class_name();
    if (!is_plain_tensor(name)) {
        refuse_torch("tensors made by '" + printable(name) +
                     "' (quantised, sparse, nested or without data) are not supported");
    }
    const bool has_dtype = name == "torch._utils _rebuild_tensor_v3";
    if (arguments.size() < (has_dtype ? 7U : 4U)) {
        fail_torch("'" + std::string(name) + "' has " + std::to_string(arguments.size()) +
                   " arguments");
    }
    if (const std::size_t at = has_dtype ? 7 : 6; arguments.size() > at) {
        refuse_lazy_bits(*arguments[at]);
    }
    const StorageId id = StorageId::read(*arguments[0]);
    const Record record = storage_of(id);
    tensor.dtype = has_dtype ? dtype_of_global(*arguments[6]).value_or(id.dtype) : id.dtype;
    tensor.element_offset = read_count(*arguments[1], "a tensor's storage offset");
    read_counts(*arguments[2], "a tensor's size", tensor.shape);
    read_counts(*arguments[3], "a tensor's stride", tensor.strides);
    if (tensor.shape.size() != tensor.strides.size()) {
        fail_torch("a tensor has " + std::to_string(tensor.shape.size()) + " sizes and " +
                   std::to_string(tensor.strides.size()) + " strides");
    }
    tensor.storage_offset = record.offset;
    tensor.storage_bytes = record.size;
    tensor.crc32 = record.crc32;
    check_fits(tensor, id.key);
}

Bytes TorchFile::storage_bytes(const PickleValue& persistent) const {
    const PickleValue* const id = persistent.persistent_id();
    const auto parts = id == nullptr ? PickleValues{} : id->elements();
    const Record* const record = parts.size() > 2 ? records_.find(parts[2]->text()) : nullptr;
    return record == nullptr ? 0 : record->size;
}

TorchFile::Record TorchFile::storage_of(const StorageId& id) const {
    if (id.location == "meta") {
        refuse_torch("storage '" + std::string(id.key) +
                     "' lies on the meta device: it has no data");
    }
    const Record* const found = records_.find(id.key);
    if (found == nullptr) {
        fail_torch("record data/" + std::string(id.key) + " is missing");
    }
    Record record = *found;
    const auto bytes_of = [&id](Index count) {
        return checked_mul_bytes(to_bytes(count, "a storage's size"), size_of(id.dtype),
                                 "a storage's size");
    };
    if (bytes_of(id.count) > record.size) {
        fail_torch("storage '" + std::string(id.key) + "' should have " + std::to_string(id.count) +
                   " elements of " + std::to_string(size_of(id.dtype)) + " bytes; its record has " +
                   std::to_string(record.size) + " bytes");
    }
    if (id.view) {
        const Bytes start = bytes_of(id.view->offset);
        const Bytes size = bytes_of(id.view->count);
        if (start > record.size || size > record.size - start) {
            fail_torch("a view of storage '" + std::string(id.key) + "' runs past its end");
        }
        record = {record.offset + start, size, 0};
    }
    return record;
}

std::optional<DType> dtype_of_global(const PickleValue& value) {
    if (value.kind == PickleKind::none) {
        return std::nullopt;
    }
    constexpr std::string_view kModule = "torch ";
    if (value.kind != PickleKind::global || !value.text().starts_with(kModule)) {
        throw Error(ErrorCode::corrupt,
                    "a dtype is " + describe(value) + ", expected one such as torch.bfloat16");
    }
    const std::string_view name = value.text().substr(kModule.size());
    const std::optional<DType> dtype = dtype_from_torch(name);
    if (!dtype) {
        throw Error(ErrorCode::unsupported, "dtype torch." + printable(name) + " is not supported");
    }
    return dtype;
}

}  // namespace shardweld::formats
