// Eight threads share loops at the same time, each on one to four cores, and check the results.

#include "cores.cc"

#include <cstdio>
#include <vector>

namespace {

using Cells = std::vector<int64_t>;

int AddIndices(int task, GroupEnv* env, void* closure) {
  Cells& cells = *static_cast<Cells*>(closure);
  size_t first = cells.size() * task / env->num_task;
  size_t after = cells.size() * (task + 1) / env->num_task;
  for (size_t i = first; i < after; ++i) cells[i] += i;
  return 0;
}

int Wrong(const Cells& cells, int rounds) {
  int wrong = 0;
  for (size_t i = 0; i < cells.size(); ++i) wrong += cells[i] != static_cast<int64_t>(i) * rounds;
  return wrong;
}

int Caller(int number) {
  Cells cells(1000 + number);
  int wrong = 0;
  for (int round = 1; round <= 500; ++round) {
    Given given(1 + (number + round) % 4);
    if (LaunchLoop(AddIndices, &cells, 0) != 0) ++wrong;
    wrong += Wrong(cells, round);
    // Now and then the helpers fall asleep.
    if (round % 100 == 0) std::this_thread::sleep_for(4 * kAwake);
  }
  return wrong;
}

}  // namespace

int main() {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int number = 0; number < 8; ++number) {
    callers.emplace_back([&wrong, number] { wrong += Caller(number); });
  }
  for (std::thread& caller : callers) caller.join();
  std::printf("%d wrong\n", wrong.load());
  return wrong != 0;
}
