#include "tally.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "mpi/share.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

namespace {

[[noreturn]] void refuse(const std::string& what) {
    throw Error(ErrorCode::internal, what + ", against the plan; nothing is published");
}

std::string tensor_at(const plan::Plan& plan, Bytes position) {
    // The position may lie inside an element.
    std::string name = "the output";
    for (const plan::Slice& work : plan::work_of(plan, {position, position + 1})) {
        for (const plan::Slice& slice : plan::made_with(plan, work)) {
            name = slice.output_begin <= position ? plan.tensor(slice.tensor).name.text() : name;
        }
    }
    return name;
}

}  // namespace

Tally gathered(mpi::Comm& comm, const Tally& mine) {
    Tally all;
    for (const Tally& part : mpi::gather(comm, mine)) {
        all.written += part.written;
        all.reused += part.reused;
        append_all(all.parts, part.parts);
    }
    return all;
}

void require_each_byte_once(const plan::Plan& plan, const Tally& all,
                            const std::vector<plan::OutputRange>& reused) {
    std::vector<plan::OutputRange> parts = all.parts;
    append_all(parts, reused);
    std::ranges::sort(
        parts, {}, [](const plan::OutputRange& part) { return std::pair(part.begin, part.end); });
    const Bytes total = plan.space.begins.back();
    Bytes done = 0;
    for (const plan::OutputRange& part : parts) {
        if (part.begin < done && part.begin < part.end) {
            refuse("bytes of " + tensor_at(plan, part.begin) + " were written twice");
        }
        if (part.begin > done) {
            break;
        }
        done = std::max(done, part.end);
    }
    if (done < total) {
        refuse("bytes of " + tensor_at(plan, done) + " were not written");
    }
    if (all.written + all.reused != total) {
        refuse(std::to_string(all.written) + " bytes were written and " +
               std::to_string(all.reused) + " taken over from an earlier run, of " +
               std::to_string(total) + " in all");
    }
}

}  // namespace shardweld::execute
