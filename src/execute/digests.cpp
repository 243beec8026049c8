#include "digests.hpp"

#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "shardweld/execute/run.hpp"

namespace shardweld::execute {

namespace {

Digest canonical(XXH128_hash_t hash) {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, hash);
    Digest digest;
    std::memcpy(digest.data(), bytes.digest, digest.size());
    return digest;
}

Index block_elements(const plan::Target& target) {
    const outputs::OutputTensor tensor{target.name, target.dtype, target.shape};
    const Index rows = target.shape.empty() ? 1 : target.shape.front();
    return rows == 0 ? 1
                     : std::max<Index>(1, target.volume() / rows * plan::rows_per_block(tensor));
}

}  // namespace

std::string hex(const Digest& digest) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : digest) {
        text += kDigits[std::to_integer<std::size_t>(byte >> 4U)];
        text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    return text;
}

Digest digest_of(std::span<const std::byte> bytes) {
    return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

struct BlockDigests::State {
    XXH3_state_t* hash = XXH3_createState();
    Index at = 0;  // element of the tensor up to which the open block is hashed

    State() = default;
    ~State() { XXH3_freeState(hash); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    State(State&&) = delete;
    State& operator=(State&&) = delete;
};

BlockDigests::BlockDigests(const plan::Plan& plan)
    : plan_(plan), state_(std::make_unique<State>()) {}
BlockDigests::~BlockDigests() = default;

void BlockDigests::add(const plan::Slice& slice, std::span<const std::byte> bytes) {
    const plan::Target& target = plan_.targets[slice.target];
    const Index block = block_elements(target);
    const Bytes size = size_of(target.dtype);
    for (Index at = slice.begin; at < slice.end;) {
        const Index end = std::min({slice.end, (at / block + 1) * block, target.volume()});
        if (at % block == 0) {
            (void)XXH3_128bits_reset(state_->hash);
        }
        const auto part = bytes.subspan(static_cast<std::size_t>(at - slice.begin) * size,
                                        static_cast<std::size_t>(end - at) * size);
        (void)XXH3_128bits_update(state_->hash, part.data(), part.size());
        if (end % block == 0 || end == target.volume()) {
            blocks_.push_back(
                {at / block, slice.target, canonical(XXH3_128bits_digest(state_->hash))});
        }
        at = end;
    }
}

std::vector<std::string> BlockDigests::gather(mpi::Comm& comm) const {
    const auto all = comm.all_gather(std::as_bytes(std::span(blocks_)));
    if (comm.rank() != 0) {
        return {};
    }
    std::vector<std::vector<Block>> blocks(plan_.targets.size());
    for (const auto& bytes : all) {
        std::vector<Block> part(bytes.size() / sizeof(Block));
        if (!part.empty()) {
            std::memcpy(part.data(), bytes.data(), bytes.size());
        }
        for (const Block& block : part) {
            blocks[block.tensor].push_back(block);
        }
    }
    std::vector<std::string> tensors;
    for (auto& of_tensor : blocks) {
        std::sort(of_tensor.begin(), of_tensor.end(),
                  [](const Block& a, const Block& b) { return a.number < b.number; });
        std::vector<std::byte> line;
        for (const Block& block : of_tensor) {
            line.insert(line.end(), block.digest.begin(), block.digest.end());
        }
        tensors.push_back(hex(digest_of(line)));
    }
    return tensors;
}

std::string root_digest(const plan::Plan& plan, const std::vector<std::string>& tensor_digests) {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < plan.targets.size(); ++i) {
        const plan::Target& target = plan.targets[i];
        std::string line = target.name + " " + std::string(safetensors_name(target.dtype));
        for (const Index extent : target.shape) {
            line += " " + std::to_string(extent);
        }
        lines.push_back(line + " " + tensor_digests[i] + "\n");
    }
    std::sort(lines.begin(), lines.end());
    std::string text;
    for (const std::string& line : lines) {
        text += line;
    }
    return hex(digest_of(std::as_bytes(std::span(text))));
}

}  // namespace shardweld::execute
