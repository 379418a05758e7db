// Assertions of the C++ tests. A failed one is counted and printed with its place, its values and
// the case at hand (see Scope); the test goes on. main() ends with `return
// fused_rnn::TestResult();`.
#ifndef FUSED_RNN_TESTS_CPP_CHECK_H_
#define FUSED_RNN_TESTS_CPP_CHECK_H_

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace fused_rnn {

struct CheckState {
  int64_t checks = 0;
  int64_t failures = 0;
  std::vector<std::string> scopes;
};

inline CheckState& Checks() {
  static CheckState state;
  return state;
}

// Describes the case while alive: printed with every failure. The checks are for one thread.
class Scope {
 public:
  __attribute__((format(printf, 2, 3))) explicit Scope(const char* format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    Checks().scopes.push_back(text);
  }
  ~Scope() { Checks().scopes.pop_back(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

inline bool CheckThat(bool ok, const char* file, int line, const std::string& what) {
  constexpr int kMostPrinted = 20;
  CheckState& state = Checks();
  ++state.checks;
  if (ok) return true;
  if (++state.failures > kMostPrinted) return false;
  std::printf("%s:%d: %s", file, line, what.c_str());
  for (const std::string& scope : state.scopes) std::printf("\n    %s", scope.c_str());
  std::printf("\n");
  return false;
}

template <typename A, typename B>
bool CheckEqual(const A& a, const B& b, const char* expression, const char* file, int line) {
  if (a == b) return CheckThat(true, file, line, "");
  std::ostringstream what;
  what.precision(17);
  what << expression << ": " << a << " != " << b;
  return CheckThat(false, file, line, what.str());
}

template <typename Call>
bool CheckThrows(const Call& call, const char* part, const char* expression, const char* file,
                 int line) {
  std::string what;
  try {
    call();
    what = "no exception";
  } catch (const std::exception& error) {
    what = error.what();
    if (what.find(part) != std::string::npos) return CheckThat(true, file, line, "");
  }
  return CheckThat(
      false, file, line,
      std::string(expression) + ": expected an error with \"" + part + "\", got: " + what);
}

// The exit code. A test that has checked nothing fails.
inline int TestResult() {
  const CheckState& state = Checks();
  std::printf("%lld checks, %lld failed\n", static_cast<long long>(state.checks),
              static_cast<long long>(state.failures));
  return state.checks > 0 && state.failures == 0 ? 0 : 1;
}

}  // namespace fused_rnn

#define CHECK(condition) ::fused_rnn::CheckThat((condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) ::fused_rnn::CheckEqual((a), (b), #a " == " #b, __FILE__, __LINE__)
// `part` is in the error's message.
#define CHECK_THROWS(expression, part) \
  ::fused_rnn::CheckThrows([&] { (void)(expression); }, part, #expression, __FILE__, __LINE__)

#endif  // FUSED_RNN_TESTS_CPP_CHECK_H_
