// Claims: what places of a checkpoint state of the same thing, held against each other. Readers
// state them; the rules here compare, and each has one sentence for where they do not hold.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "shardweld/error.hpp"

namespace shardweld::catalogue {

inline constexpr const char* kOneSave = "copy all files from one save: these are of several";

/// A claim's value in messages.
std::string claim_text(Index value);
std::string claim_text(std::optional<Index> value);
std::string claim_text(DType value);
std::string claim_text(const std::string& value);
std::string claim_text(const std::vector<Index>& shape);

/// "KEY is A in BY but B in BY2".
std::string contradiction(const std::string& key, const std::string& a, const std::string& by_a,
                          const std::string& b, const std::string& by_b);

/// Rule `equals`: Error(mismatch) where two places state different values of `key`.
template <typename Value>
void require_equal(const std::string& key, const Value& a, const std::string& by_a, const Value& b,
                   const std::string& by_b, const char* hint = kOneSave) {
    if (a != b) {
        throw Error(ErrorCode::mismatch,
                    contradiction(key, claim_text(a), by_a, claim_text(b), by_b), hint);
    }
}

/// Rule `at_most`: Error(mismatch) where there is more than a place states of `key`.
void require_at_most(const std::string& key, Index found, Index stated, const std::string& by,
                     const char* hint = kOneSave);

/// Rule `covers`: the numbers from `first` to `last` that nothing states, `most` of them at most.
std::vector<Index> not_covered(const std::set<Index>& stated, Index first, Index last,
                               std::size_t most = SIZE_MAX);

/// Rule `distinct`: the Error(mismatch) of two files that say, or are named so, that they are one
/// part.
Error same_part(std::string_view a, std::string_view b, const std::string& part = "the same rank",
                const char* hint = kOneSave);

/// Rule `agree`: the first claim of each key, which all others repeat.
template <typename Value>
class Claims {
  public:
    void agree(const std::string& key, const Value& value, const std::string& by,
               const char* hint = kOneSave) {
        const auto [first, is_new] = first_.try_emplace(key, value, by);
        require_equal(key, first->second.first, first->second.second, value, by, hint);
    }
    void agree(const std::map<std::string, Value>& values, const std::string& by,
               const char* hint) {
        for (const auto& [key, value] : values) {
            agree(key, value, by, hint);
        }
    }
    /// nullopt: nothing is stated.
    [[nodiscard]] std::optional<Value> find(std::string_view key) const {
        const auto at = first_.find(key);
        return at == first_.end() ? std::nullopt : std::optional(at->second.first);
    }
    /// Who stated what is known of `key`.
    [[nodiscard]] const std::string& speaker(std::string_view key) const {
        return first_.find(key)->second.second;
    }

  private:
    std::map<std::string, std::pair<Value, std::string>, std::less<>> first_;
};

}  // namespace shardweld::catalogue
