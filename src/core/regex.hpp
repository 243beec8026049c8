// Regular expressions that anybody may write: matched in time linear in the text, in bounded
// memory. Facts: RE2's syntax, which is Perl's and Python's without look-around and
// back-references.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace shardweld {

/// A compiled regular expression. Cheap to copy.
class Regex {
  public:
    /// Error(usage) with RE2's own words when `expression` is none, or one that needs more than a
    /// few megabytes.
    explicit Regex(const std::string& expression);

    /// Whether it matches some part of the text.
    [[nodiscard]] bool is_found_in(std::string_view text) const;
    /// Whether it matches the text as a whole.
    [[nodiscard]] bool matches(std::string_view text) const;

  private:
    struct Compiled;
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace shardweld
