#include "digests.hpp"

#include <algorithm>

#include "mpi/share.hpp"
#include "plan/plan.hpp"

#include "run_options.hpp"

namespace shardweld::execute {

BlockDigests::BlockDigests(const plan::Plan& plan, bool keeps_ends)
    : plan_(plan), keeps_ends_(keeps_ends) {}

void BlockDigests::add(const plan::Slice& slice, ByteView bytes) {
    const plan::WrittenTensor& tensor = plan_.tensor(slice.tensor);
    const Bytes size = size_of(tensor.dtype);
    const Index block = plan_.block_elements(slice.tensor);
    for (Index at = slice.begin; at < slice.end;) {
        const Index end = std::min({slice.end, (at / block + 1) * block, tensor.volume()});
        const auto part = bytes.subspan(static_cast<std::size_t>(at - slice.begin) * size,
                                        static_cast<std::size_t>(end - at) * size);
        if (at % block == 0) {
            stream_.reset();
            edges_.open = at / block;
            edges_.open_tensor = slice.tensor;
        }
        if (edges_.open != kNone) {
            stream_.add(part);
        } else {
            add_fragment({slice.tensor, at, end, 0}, part);
        }
        end_ = end;
        if (edges_.open != kNone && (end % block == 0 || end == tensor.volume())) {
            finish_block();
        }
        at = end;
    }
}

/// The end of a block that another rank begins.
void BlockDigests::add_fragment(const plan::Slice& part, ByteView bytes) {
    const plan::WrittenTensor& tensor = plan_.tensor(part.tensor);
    const Bytes size = size_of(tensor.dtype);
    const Index block = plan_.block_elements(part.tensor);
    if (!first_) {
        stream_.reset();
        first_ = {part.tensor, part.begin, part.begin, {}};
    }
    stream_.add(bytes);
    first_->end = part.end;
    first_->digest = stream_.digest();
    if (!keeps_ends_) {
        return;
    }
    edges_.fragment = part.begin / block;
    edges_.fragment_tensor = part.tensor;
    if (fragment_.empty()) {
        const Index whole = std::min((edges_.fragment + 1) * block, tensor.volume());
        fragment_.reserve(static_cast<std::size_t>(whole - part.begin) * size);
    }
    append_all(fragment_, bytes);
}

Written BlockDigests::take_written() {
    Written written;
    if (first_) {
        written.edges.push_back(*first_);
    }
    if (edges_.open != kNone) {
        const Index block = plan_.block_elements(edges_.open_tensor);
        written.edges.push_back({edges_.open_tensor, edges_.open * block, end_, stream_.digest()});
    }
    written.blocks = std::move(blocks_);
    return written;
}

void BlockDigests::finish_block() {
    blocks_.push_back({edges_.open, edges_.open_tensor, stream_.digest()});
    edges_.open = kNone;
}

/// The rank that holds the beginning of the block whose end is rank `rank`'s fragment.
std::size_t BlockDigests::beginner_of(const std::vector<Edges>& all, std::size_t rank) {
    const Edges& mine = all[rank];
    for (std::size_t other = rank; other-- > 0;) {
        if (all[other].open == mine.fragment && all[other].open_tensor == mine.fragment_tensor) {
            return other;
        }
    }
    throw Error(ErrorCode::internal, "no rank has the beginning of a block of " +
                                         std::to_string(mine.fragment_bytes) + " bytes");
}

/// Hands fragments to the ranks where their blocks begin, which then finish these.
void BlockDigests::complete(mpi::Comm& comm) {
    edges_.fragment_bytes = fragment_.size();
    const std::vector<Edges> all = mpi::gather(comm, edges_);
    const auto own = static_cast<std::size_t>(comm.rank());
    std::vector<ByteView> to_send(all.size());
    std::vector<ByteBuffer> received(all.size());
    for (const std::size_t rank : indices(all)) {
        if (all[rank].fragment == kNone) {
            continue;
        }
        const std::size_t beginner = beginner_of(all, rank);
        if (rank == own) {
            to_send[beginner] = fragment_;
        }
        if (beginner == own) {
            received[rank].resize(all[rank].fragment_bytes);
        }
    }
    const std::vector<ByteSpan> to_receive(received.begin(), received.end());
    (void)comm.exchange(to_send, to_receive, kDigestBlock);
    if (edges_.open == kNone) {
        return;
    }
    for (const auto& part : received) {
        stream_.add(part);
    }
    finish_block();
}

std::vector<std::string> BlockDigests::gather(mpi::Comm& comm) {
    complete(comm);
    const std::vector<DoneBlock> all = mpi::gather_all(comm, blocks_);
    if (comm.rank() != 0) {
        return {};
    }
    std::vector<std::vector<DoneBlock>> blocks(plan_.tensors.size());
    for (const DoneBlock& block : all) {
        blocks[block.tensor].push_back(block);
    }
    std::vector<std::string> tensors;
    for (auto& of_tensor : blocks) {
        std::ranges::sort(of_tensor, {}, &DoneBlock::number);
        ByteBuffer line;
        for (const DoneBlock& block : of_tensor) {
            append_all(line, block.digest);
        }
        tensors.push_back(hex(digest_of(line)));
    }
    return tensors;
}

std::string root_digest(const plan::Plan& plan, const std::vector<std::string>& tensor_digests) {
    std::vector<std::string> lines;
    for (std::uint32_t i = 0; i < plan.tensors.size(); ++i) {
        const plan::WrittenTensor& tensor = plan.tensor(i);
        std::string line =
            tensor.name.text() + " " + safetensors_name(tensor.dtype) +
            add_up(tensor.shape, [](const Index extent) { return " " + std::to_string(extent); });
        lines.push_back(line + " " + tensor_digests[i] + "\n");
    }
    std::ranges::sort(lines);
    std::string text = add_up(lines, [](const std::string& line) { return line; });
    return hex(digest_of(std::as_bytes(std::span(text))));
}

}  // namespace shardweld::execute
