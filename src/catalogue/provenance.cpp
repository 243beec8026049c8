#include "provenance.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/text.hpp"

#include "claims.hpp"

namespace shardweld::catalogue {

namespace {

constexpr const char* kCopyOneSave =
    "the files are not from one save: copy all files of one save again, under the names that they "
    "were saved with";
constexpr const char* kCopyBoth =
    "copy both again from where they were saved: one was copied over another rank's file";
constexpr const char* kCopyInPlace =
    "the file is not the one its place says: copy all files of one save again, under the names "
    "that they were saved with";

std::string list_of(const FileAssertion::Values& claims) {
    const std::string text =
        joined(claims, ", ", [](const auto& claim) { return claim.first + " " + claim.second; });
    return printable(text, 300);
}

/// What one file says itself.
struct StatedFacts {
    FileAssertion::Values rank;
    bool has_save = false;
    std::string_view likeness;
};
using ToldByFile = std::map<std::string_view, StatedFacts>;

/// Two files that are the same part of the save.
void require_distinct(const ToldByFile& told) {
    std::map<FileAssertion::Values, std::string_view> files;
    for (const auto& [file, own] : told) {
        if (own.rank.empty()) {
            continue;
        }
        const auto [at, is_new] = files.emplace(own.rank, file);
        if (!is_new) {
            throw same_part(at->second, file, list_of(own.rank), kCopyBoth);
        }
    }
}

/// What one source tells.
struct Source {
    std::set<std::string_view> files;
    std::set<std::string_view> keys;
};

/// How many of the files each source tells what of, in words; what files say of themselves comes
/// first.
std::vector<std::string> source_texts(std::span<const FileAssertion> statements,
                                      std::size_t n_files) {
    std::map<std::pair<bool, std::string_view>, Source, std::greater<>> sources;
    for (const FileAssertion& statement : statements) {
        if (statement.rank.empty() && statement.save.empty()) {
            continue;
        }
        Source& source = sources[{statement.is_inner, statement.source}];
        source.files.insert(statement.file);
        for (const FileAssertion::Values* claims : {&statement.rank, &statement.save}) {
            for (const auto& [key, value] : *claims) {
                source.keys.insert(key);
            }
        }
    }
    return collect_list(sources, [&](const auto& one) {
        const auto& [files, keys] = one.second;
        const std::string in =
            files.size() == 1 && n_files != 1
                ? printable(*files.begin())
                : std::to_string(files.size()) + (n_files == 1 ? " file" : " files");
        const auto text = [](std::string_view key) { return printable(key); };
        return printable(one.first.second) + " in " + in + " (" + joined(keys, ", ", text) + ")";
    });
}

/// Files that could change places with another one.
std::size_t count_alike(const ToldByFile& told) {
    std::map<std::string_view, std::size_t> counts;
    for (const auto& [file, own] : told) {
        if (own.rank.empty() && !own.likeness.empty()) {
            ++counts[own.likeness];
        }
    }
    std::size_t n_alike = 0;
    for (const auto& [likeness, count] : counts) {
        n_alike += count > 1 ? count : 0;
    }
    return n_alike;
}

/// Whether something that the job wrote about the save is said in a second place, too: a state file
/// may speak for files that say nothing.
bool is_confirmed(std::span<const FileAssertion> statements) {
    std::map<std::string_view, std::set<std::string_view>> places;
    std::set<std::string_view> written;
    for (const FileAssertion& statement : statements) {
        for (const auto& [key, value] : statement.save) {
            places[key].insert(statement.file);
            if (statement.is_inner) {
                written.insert(key);
            }
        }
    }
    return std::ranges::any_of(written,
                               [&](std::string_view key) { return places[key].size() > 1; });
}

ToldByFile gather(std::span<const FileAssertion> statements) {
    Claims<std::string> save;
    std::unordered_map<std::string_view, Claims<std::string>> ranks;
    ToldByFile told;
    for (const FileAssertion& statement : statements) {
        const std::string by = statement.file + " (" + statement.source + ")";
        save.agree(statement.save, by, kCopyOneSave);
        ranks[statement.file].agree(statement.rank, by, kCopyInPlace);
        StatedFacts& own = told[statement.file];
        if (statement.is_inner) {
            own.rank.insert(statement.rank.begin(), statement.rank.end());
            own.has_save = own.has_save || !statement.save.empty();
        }
        own.likeness = own.likeness.empty() ? statement.likeness : own.likeness;
    }
    return told;
}

}  // namespace

std::string name_of(Standing standing) {
    switch (standing) {
        case Standing::proved:
            return "proved";
        case Standing::consistent:
            return "consistent";
        case Standing::unknown:
            return "unknown";
    }
    return "unknown";
}

Provenance compare_statements(std::span<const File> files,
                              std::span<const FileAssertion> statements) {
    const ToldByFile told = gather(statements);
    require_distinct(told);
    std::size_t n_ranks = 0;
    std::size_t n_saves = 0;
    for (const File& file : files) {
        auto* const at = find_value(told, file.path);
        n_ranks += at != nullptr && !at->rank.empty() ? 1U : 0U;
        n_saves += at != nullptr && at->has_save ? 1U : 0U;
    }
    Provenance provenance;
    provenance.evidence = source_texts(statements, files.size());
    const std::string of = " of " + std::to_string(files.size()) + " files do not say ";
    if (n_ranks < files.size() && files.size() > 1) {
        provenance.evidence.push_back(std::to_string(files.size() - n_ranks) + of +
                                      "which part they hold");
    }
    if (n_saves < files.size()) {
        provenance.evidence.push_back(std::to_string(files.size() - n_saves) + of +
                                      "which save they belong to");
    }
    if (const std::size_t n_alike = count_alike(told); n_alike > 0) {
        provenance.evidence.push_back(std::to_string(n_alike) +
                                      " files have the same layout as others; swapping them would "
                                      "go unnoticed");
    }
    // A file alone is the whole.
    const bool has_parts = n_ranks == files.size() || files.size() == 1;
    const bool is_all = has_parts && n_saves == files.size() && !files.empty();
    const bool is_something = n_ranks > 0 || n_saves > 0 || is_confirmed(statements);
    provenance.standing = is_all         ? Standing::proved
                          : is_something ? Standing::consistent
                                         : Standing::unknown;
    return provenance;
}

std::string text_of(const Provenance& provenance) {
    std::string text = name_of(provenance.standing);
    for (const std::size_t i : indices(provenance.evidence)) {
        text += (i == 0 ? ": " : "; ") + provenance.evidence[i];
    }
    return text;
}

}  // namespace shardweld::catalogue
