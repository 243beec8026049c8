// Rounds of all ranks, carried out in memory: what one sends, another receives, and together they
// assemble every element.
#include "execute/round.hpp"

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "execute/count_unlike.hpp"
#include "layout/copy.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/rounds.hpp"

namespace shardweld::execute {
namespace {

using plan::Target;

constexpr std::size_t kFiles = 3;

/// Files of 16-bit elements in memory, and the targets that are made of them.
struct Stored {
    std::vector<std::vector<std::uint16_t>> files{kFiles};
    std::vector<Target> targets;

    static std::uint16_t element(std::size_t target, Index row, Index column) {
        return static_cast<std::uint16_t>(target * 7919 + static_cast<std::size_t>(row * 131) +
                                          static_cast<std::size_t>(column));
    }

    /// A target cut along `dim` into one piece for each file; `is_transposed`: stored column by
    /// column.
    void add(Index rows, Index columns, std::size_t dim, bool is_transposed) {
        Target target;
        target.name = std::string(1, static_cast<char>('a' + targets.size()));
        target.stored = target.dtype = DType::bf16;
        target.shape = {rows, columns};
        for (std::size_t file = 0; file < kFiles; ++file) {
            const Index extent = target.shape[dim];
            const Index begin = extent * static_cast<Index>(file) / static_cast<Index>(kFiles);
            const Index end = extent * static_cast<Index>(file + 1) / static_cast<Index>(kFiles);
            layout::Box box{{0, rows}, {0, columns}};
            box[dim] = {begin, end - begin};
            target.operands.push_back(piece(target, file, box, is_transposed));
        }
        targets.push_back(std::move(target));
    }

    /// Holds the last target once more, whole, with one element changed.
    void add_replica(std::size_t file) {
        Target target = std::move(targets.back());
        targets.pop_back();
        target.replicas.push_back(
            piece(target, file, {{0, target.shape[0]}, {0, target.shape[1]}}, false));
        files[file].back() ^= 1U;
        targets.push_back(std::move(target));
    }

    [[nodiscard]] std::span<const std::byte> bytes(std::uint32_t file) const {
        return std::as_bytes(std::span(files[file]));
    }

  private:
    plan::Operand piece(const Target& target, std::size_t file, const layout::Box& box,
                        bool is_transposed) {
        const layout::Patch whole = layout::dense_shape(target.shape);
        layout::Patch patch = *layout::clip(whole, box);
        patch.offset = 0;
        patch.axes[0].stride = is_transposed ? 1 : box[1].extent;
        patch.axes[1].stride = is_transposed ? box[0].extent : 1;
        const Bytes base = files[file].size() * sizeof(std::uint16_t);
        const std::size_t at = files[file].size();
        files[file].resize(at + static_cast<std::size_t>(box[0].extent * box[1].extent));
        for (Index row = 0; row < box[0].extent; ++row) {
            for (Index column = 0; column < box[1].extent; ++column) {
                const Index place = row * patch.axes[0].stride + column * patch.axes[1].stride;
                files[file][at + static_cast<std::size_t>(place)] =
                    element(targets.size(), box[0].lo + row, box[1].lo + column);
            }
        }
        return {static_cast<std::uint32_t>(file), base, *layout::overlap(patch, whole)};
    }
};

Stored stored() {
    Stored made;
    made.add(300, 257, 0, false);
    made.add(64, 900, 1, false);
    made.add(500, 129, 0, true);
    made.add(40, 333, 1, true);
    made.add(7, 11, 0, false);
    made.add_replica(2);
    return made;
}

/// One rank's round and its memory.
struct Member {
    RoundBuffers buffers;
    Round round;
};

void carry_out(const Stored& data, std::vector<Member>& members) {
    for (Member& member : members) {
        for (const Move& move : member.round.reads) {
            layout::run(move.copy, move.element_bytes, data.bytes(move.file).subspan(move.base),
                        move.dst);
        }
    }
    for (std::size_t from = 0; from < members.size(); ++from) {
        for (std::size_t to = 0; to < members.size(); ++to) {
            const auto sent = members[from].round.to_send.empty() ? std::span<const std::byte>()
                                                                  : members[from].round.to_send[to];
            const auto received = members[to].round.to_receive.empty()
                                      ? std::span<std::byte>()
                                      : members[to].round.to_receive[from];
            ASSERT_EQ(sent.size(), received.size()) << from << " to " << to;
            std::copy(sent.begin(), sent.end(), received.begin());
        }
    }
    for (Member& member : members) {
        for (const Unpack& part : member.round.unpacks) {
            part.move.carry_out(part.move.copy, part.message);
        }
        for (const Unpack& part : member.round.unpack_compares) {
            part.move.carry_out(part.move.copy, part.message);
        }
        for (const Move& move : member.round.compares) {
            *move.n_different += count_unlike(move.copy, move.rounding,
                                              data.bytes(move.file).subspan(move.base), move.dst);
        }
    }
}

/// How many elements the slices of a round have, which are as they must be.
Index count_right(const plan::Plan& plan, const Round& round) {
    Index n_elements = 0;
    for (const StoredSlice& one : round.slices) {
        const Target& target = plan.target_of(one.slice.tensor);
        const auto id = static_cast<std::size_t>(target.name.text().front() - 'a');
        for (Index at = one.slice.begin; at < one.slice.end; ++at) {
            std::uint16_t value = 0;
            std::memcpy(&value,
                        one.stored.data() + static_cast<std::size_t>(at - one.slice.begin) * 2, 2);
            EXPECT_EQ(value, Stored::element(id, at / target.shape[1], at % target.shape[1]))
                << target.name.text() << " " << at;
            ++n_elements;
        }
    }
    return n_elements;
}

struct Done {
    Index n_elements = 0;
    Index n_different = 0;
    Bytes sent = 0;
};

Done all_rounds(const Stored& data, int n_ranks, plan::Strategy strategy) {
    std::vector<catalogue::File> files;
    for (std::uint32_t file = 0; file < kFiles; ++file) {
        files.push_back({"file" + std::to_string(file), data.bytes(file).size()});
    }
    plan::JobPlan choice;
    choice.strategy = strategy;
    choice.replicas = plan::Replicas::verify;
    plan::Plan plan =
        plan::make_plan(data.targets, files, plan::Visibility::everywhere(n_ranks, kFiles), choice);
    plan.limits.round = 64 << 10U;
    plan.limits.send = 48 << 10U;
    plan::Rounds rounds(plan);
    Done done;
    std::vector<plan::OutputRange> ranges;
    while (rounds.next(ranges)) {
        std::vector<Member> members;
        for (int rank = 0; rank < n_ranks; ++rank) {
            members.push_back({RoundBuffers(plan.limits), {}});
            members.back().round =
                make_round(plan, ranges, rounds.term(), rank, members.back().buffers);
        }
        carry_out(data, members);
        for (const Member& member : members) {
            done.n_elements += count_right(plan, member.round);
            for (const Difference& one : member.round.compared) {
                done.n_different += one.n_elements;
            }
            for (const auto& message : member.round.to_send) {
                done.sent += message.size();
            }
        }
    }
    return done;
}

TEST(Round, assembles_every_element_once_at_any_number_of_ranks) {
    const Stored data = stored();
    Index n_elements = 0;
    for (const Target& target : data.targets) {
        n_elements += target.volume();
    }
    for (const int n_ranks : {1, 2, 3, 5}) {
        for (const plan::Strategy strategy : {plan::Strategy::direct, plan::Strategy::collective}) {
            SCOPED_TRACE(std::to_string(n_ranks) + std::string(plan::name_of(strategy)));
            const Done done = all_rounds(data, n_ranks, strategy);
            EXPECT_EQ(done.n_elements, n_elements);
            EXPECT_EQ(done.n_different, 1);
            EXPECT_EQ(done.sent > 0, n_ranks > 1 && strategy == plan::Strategy::collective);
        }
    }
}

TEST(Round, names_the_tensor_that_operands_do_not_fill) {
    Stored data = stored();
    data.targets[1].operands.change([](auto& operands) { operands.pop_back(); });
    try {
        all_rounds(data, 2, plan::Strategy::direct);
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::internal);
        EXPECT_NE(std::string(error.what()).find("bytes of tensor b"), std::string::npos);
    }
}

}  // namespace
}  // namespace shardweld::execute
