#include "round.hpp"

#include <algorithm>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

namespace {

using plan::Operand;
using plan::Plan;
using plan::Slice;
using plan::Target;

constexpr Bytes kSampleBytes = Bytes{1} << 20U;

Bytes moved_bytes(const Move& move) {
    return static_cast<Bytes>(move.copy.volume()) * move.element_bytes;
}

/// Collects one round; transfers first, addresses in messages when all sizes are known.
class RoundMaker {
  public:
    RoundMaker(const Plan& plan, int rank, RoundBuffers& buffers, Round& round)
        : plan_(plan),
          rank_(rank),
          buffers_(buffers),
          round_(round),
          outgoing_(static_cast<std::size_t>(plan.n_ranks())),
          incoming_(static_cast<std::size_t>(plan.n_ranks())) {}

    void add_owner(int owner, plan::OutputRange range) {
        const auto slices = plan::work_of(plan_, range);
        if (owner == rank_) {
            assemble(slices);
        }
        for (const std::size_t i : indices(slices)) {
            const ByteSpan place = owner == rank_ ? round_.slices[i].stored : ByteSpan{};
            add_slice(owner, slices[i], place);
        }
    }

    void finish() {
        Bytes n_sent = 0;
        Bytes n_received = 0;
        for (const std::size_t rank : indices(outgoing_)) {
            n_sent += add_up(outgoing_[rank], moved_bytes);
            n_received += add_up(incoming_[rank], moved_bytes);
        }
        ByteSpan sent;
        ByteSpan received;
        if (n_sent > 0) {
            sent = buffers_.sent.get(n_sent);
        }
        if (n_received > 0) {
            received = buffers_.received.get(n_received);
        }
        for (const std::size_t rank : indices(outgoing_)) {
            const Bytes send_bytes = add_up(outgoing_[rank], moved_bytes);
            const Bytes receive_bytes = add_up(incoming_[rank], moved_bytes);
            round_.to_send.emplace_back(sent.first(send_bytes));
            round_.to_receive.push_back(received.first(receive_bytes));
            pack(outgoing_[rank], sent.first(send_bytes));
            unpack(incoming_[rank], received.first(receive_bytes));
            sent = sent.subspan(send_bytes);
            received = received.subspan(receive_bytes);
        }
    }

  private:
    /// Places for this rank's slices, one after another in the assembling buffer.
    void assemble(const std::vector<Slice>& slices) {
        const Bytes total = add_up(slices, [&](const Slice& slice) { return stored_bytes(slice); });
        ByteSpan place = buffers_.assembled.get(total, file_offset_of(plan_, slices.front()));
        for (const Slice& slice : slices) {
            round_.slices.push_back({slice, place.first(stored_bytes(slice))});
            place = place.subspan(stored_bytes(slice));
        }
    }

    [[nodiscard]] Bytes stored_bytes(const Slice& slice) const {
        const Target& target = plan_.target_of(slice.tensor);
        const bool is_met = target.mix || round_.term + 1 == plan_.n_terms;
        const DType stored = target.mix ? target.mix->terms[round_.term].stored : target.stored;
        const auto n = static_cast<Bytes>(plan_.sources(slice).extent);
        return is_met ? n * size_of(stored) : 0;
    }

    /// Puts zeros where the target is padding; how many bytes.
    [[nodiscard]] Bytes fill_zeros(const Slice& slice, ByteSpan place) const {
        const Target& target = plan_.target_of(slice.tensor);
        const layout::Range all = plan_.sources(slice);
        Bytes filled = 0;
        for (const layout::Range& range : target.zeros) {
            const layout::Range both = layout::meet(all, range);
            if (both.extent > 0 && !place.empty()) {
                const Bytes width = place.size() / static_cast<Bytes>(all.extent);
                const auto zeros = place.subspan(static_cast<Bytes>(both.lo - all.lo) * width,
                                                 static_cast<Bytes>(both.extent) * width);
                std::ranges::fill(zeros, std::byte{});
                filled += zeros.size();
            }
        }
        return filled;
    }

    void add_slice(int owner, const Slice& slice, ByteSpan place) {
        Bytes filled = owner == rank_ ? fill_zeros(slice, place) : 0;
        for (const Operand& operand : plan_.operands_of(slice.tensor)) {
            filled += add_operand(owner, slice, operand, place, nullptr);
        }
        // Whatever the plan went through, nobody writes bytes that nobody filled.
        if (owner == rank_ && filled != place.size()) {
            throw Error(ErrorCode::internal, "the plan fills " + std::to_string(filled) + " of " +
                                                 std::to_string(place.size()) +
                                                 " bytes of tensor " +
                                                 printable(plan_.tensor(slice.tensor).name.text()));
        }
        const std::uint32_t target = plan_.tensors[slice.tensor].target;
        const Bytes every = plan_.sample_every[target];
        const std::span<const Operand> replicas = plan_.replicas_of(slice.tensor);
        for (std::uint32_t i = 0; i < replicas.size(); ++i) {
            // Replicas take turns: what they cost is spread over the output space, and each is
            // looked at.
            const Bytes phase = every * i / replicas.size();
            if (every == 0 || replicas[i].term != round_.term ||
                (slice.output_begin / kSampleBytes + phase) % every != 0) {
                continue;
            }
            Index* n_different = nullptr;
            if (owner == rank_) {
                round_.compared.push_back({target, i, 0});
                n_different = &round_.compared.back().n_elements;
            }
            add_operand(owner, slice, replicas[i], place, n_different);
        }
    }

    /// How many bytes of the slice it fills, where this rank has a part in that. The owner alone
    /// has the `place` of the slice and, of a replica, `n_different`.
    Bytes add_operand(int owner, const Slice& slice, const Operand& operand, ByteSpan place,
                      Index* n_different) {
        if (operand.term != round_.term) {
            return 0;
        }
        const Target& target = plan_.target_of(slice.tensor);
        const int reader = plan_.reader_of(operand, target, owner);
        if (reader != rank_ && owner != rank_) {
            return 0;
        }
        Bytes filled = 0;
        const DType type = target.stored_as(operand);
        for (const layout::Copy& part : layout::part_in(operand.copy, plan_.sources(slice))) {
            const Move move{
                operand.file, operand.base, static_cast<std::uint32_t>(size_of(type)),      part,
                place,        n_different,  {type, operand.own_type ? target.stored : type}};
            filled += moved_bytes(move);
            if (reader == owner) {
                (n_different != nullptr ? round_.compares : round_.reads).push_back(move);
            } else if (reader == rank_) {
                outgoing_[static_cast<std::size_t>(owner)].push_back(move);
            } else {
                incoming_[static_cast<std::size_t>(reader)].push_back(move);
            }
        }
        return filled;
    }

    void pack(std::vector<Move>& moves, ByteSpan message) {
        for (Move& move : moves) {
            const Bytes size = moved_bytes(move);
            move.copy = layout::pack_unpack(move.copy).first;
            move.dst = message.first(size);
            round_.reads.push_back(move);
            message = message.subspan(size);
        }
    }

    void unpack(std::vector<Move>& moves, ByteView message) {
        for (Move& move : moves) {
            const Bytes size = moved_bytes(move);
            move.copy = layout::pack_unpack(move.copy).second;
            (move.n_different != nullptr ? round_.unpack_compares : round_.unpacks)
                .push_back({move, message.first(size)});
            message = message.subspan(size);
        }
    }

    const Plan& plan_;
    int rank_;
    RoundBuffers& buffers_;
    Round& round_;
    // Elements that go from one rank to another, in the order in which both see them.
    std::vector<std::vector<Move>> outgoing_;
    std::vector<std::vector<Move>> incoming_;
};

}  // namespace

Bytes file_offset_of(const plan::Plan& plan, const plan::Slice& slice) {
    return plan.placement.slots[slice.tensor].offset +
           static_cast<Bytes>(slice.begin) * size_of(plan.tensor(slice.tensor).dtype);
}

Round make_round(const Plan& plan, std::vector<plan::OutputRange> ranges, std::uint32_t term,
                 int rank, RoundBuffers& buffers) {
    Round round;
    round.term = term;
    RoundMaker maker(plan, rank, buffers, round);
    for (const std::size_t owner : indices(ranges)) {
        if (ranges[owner].begin < ranges[owner].end) {
            maker.add_owner(static_cast<int>(owner), ranges[owner]);
        }
    }
    maker.finish();
    round.ranges = std::move(ranges);
    return round;
}

}  // namespace shardweld::execute
