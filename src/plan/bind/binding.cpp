#include "plan/binding.hpp"

#include <numeric>

#include "core/in_context.hpp"
#include "models/pattern.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

Bytes size_as(Index n_elements, DType dtype) {
    return static_cast<Bytes>(n_elements) * size_of(dtype);
}

}  // namespace

Index WrittenTensor::volume() const {
    return in_context("tensor ", name, [&] { return volume_of(shape, "its shape"); });
}

Bytes WrittenTensor::bytes() const {
    return size_as(volume(), dtype);
}

bool Target::is_converted() const {
    return stored != dtype || add != 0 || fold || !folded.empty() || !decoded.empty() || mix ||
           encode || decode || !literal.empty();
}

Index Target::strip_elements(std::uint32_t at) const {
    if (at > 0) {
        return at < n_made() ? encode->strip_scales() : 0;
    }
    return encode ? encode->strip_codes() : decode ? decode->strip() : strip;
}

Index Target::block_elements(std::uint32_t at) const {
    if (at == 0 && block > 0) {
        return block;
    }
    const bool is_in_strips = (encode || decode) && at < n_made();
    return is_in_strips ? strip_elements(at)
                        : static_cast<Index>(kDigestBlock / size_of(output(at).dtype));
}

Bytes Target::strip_bytes() const {
    Bytes bytes = 0;
    for (std::uint32_t at = 0; at < n_made(); ++at) {
        bytes += size_as(strip_elements(at), output(at).dtype);
    }
    return bytes;
}

layout::Range Target::sources(Index begin, Index end) const {
    if (!literal.empty()) {
        return {};
    }
    if (!encode && !decode) {
        const Index n = decoded.empty() ? 1 : packing();
        return {begin / n, (end + n - 1) / n - begin / n};
    }
    const Index row = encode ? encode->row_codes() : decode->n_columns;
    const Index first = begin / row;
    const Index n = (end + row - 1) / row - first;
    if (decode) {
        return {decode->codes_in(first), decode->codes_in(n)};
    }
    return {first * encode->n_columns, n * encode->n_columns};
}

Bytes Target::stored_width() const {
    if (!literal.empty()) {
        return 0;
    }
    const auto n = static_cast<Bytes>(packing());
    return decode || !decoded.empty() ? (size_of(stored) + n - 1) / n : size_of(stored) * n;
}

WrittenTensors::WrittenTensors(const std::vector<Target>& targets) {
    tensors_.reserve(targets.size());
    for (const Target& target : targets) {
        for (std::uint32_t at = 0; at < target.n_outputs(); ++at) {
            tensors_.push_back(&target.output(at));
        }
    }
}

void write_as(std::vector<Target>& targets, DType dtype) {
    for (Target& target : targets) {
        if (is_float(target.stored) && !target.is_kept && !target.encode && !target.decode) {
            target.dtype = dtype;
        }
    }
}

Bytes source_bytes(const Target& target, const Operand& operand) {
    return size_as(operand.copy.volume(), target.stored_as(operand));
}

Bytes source_bytes(const Target& target) {
    return add_up(target.operands,
                  [&](const Operand& operand) { return source_bytes(target, operand); });
}

Bytes replica_bytes(const Target& target) {
    return add_up(target.replicas,
                  [&](const Operand& replica) { return source_bytes(target, replica); });
}

void Ledger::count(const Target& target) {
    consumed += source_bytes(target);
    replica += replica_bytes(target);
}

void Ledger::leave_out(const Target& target, const std::string& reason) {
    const Bytes written = source_bytes(target);
    const Bytes copies = replica_bytes(target);
    consumed -= written;
    replica -= copies;
    ignore(target.name, reason, written + copies);
}

void Ledger::add(const Ledger& more) {
    stored += more.stored;
    consumed += more.consumed;
    replica += more.replica;
    padding += more.padding;
    append_all(ignored, more.ignored);
}

void Ledger::ignore(const std::string& name, const std::string& reason, Bytes bytes) {
    const std::string pattern = models::digits_hidden(name);
    for (catalogue::Ignored& entry : ignored) {
        if (entry.pattern == pattern && entry.reason == reason) {
            ++entry.count;
            entry.bytes += bytes;
            return;
        }
    }
    ignored.push_back({pattern, reason, 1, bytes});
}

void Ledger::require_closed() const {
    const Bytes left_out = add_up(ignored, &catalogue::Ignored::bytes);
    const Bytes sum = consumed + replica + padding + left_out;
    if (sum != stored) {
        throw Error(ErrorCode::mismatch,
                    "the ledger does not close: the checkpoint's tensors hold " +
                        std::to_string(stored) + " bytes, but " + std::to_string(consumed) +
                        " are used, " + std::to_string(replica) + " are replicas, " +
                        std::to_string(padding) + " are padding and " + std::to_string(left_out) +
                        " are ignored, " + std::to_string(sum) + " in all",
                    "please report it with the output of shardweld inspect");
    }
}

}  // namespace shardweld::plan
