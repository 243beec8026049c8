#include "models/pattern.hpp"
#include "plan/binding.hpp"

namespace shardweld::plan {

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
    Bytes left_out = 0;
    for (const catalogue::Ignored& entry : ignored) {
        left_out += entry.bytes;
    }
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
