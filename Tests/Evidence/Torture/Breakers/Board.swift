import Glibc
import Synchronization
import TestSupport

/// A page that the referee and all workers map.
///
/// It holds the health of the resources, what the referee asks of the workers, and what they have
/// seen.
@safe final class Board: Sendable {
  static let mostBreakers = 8
  private static let length = 4_096
  private static let over = 0
  private static let round = 1
  private static let healing = 2
  private static let sickness = 8
  private static let slots = 64

  private nonisolated(unsafe) let words: UnsafeMutablePointer<Atomic<Int64>>

  private let parent = getppid()

  /// Creates the page, or shares the one that exists.
  init(path: String) throws {
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SupportError("open \(path)", errno) }
    defer { close(descriptor) }
    guard ftruncate(descriptor, Self.length) == 0 else { throw SupportError("ftruncate", errno) }
    guard
      let mapping = unsafe mmap(
        nil, Self.length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0),
      unsafe mapping != MAP_FAILED
    else { throw SupportError("mmap", errno) }
    unsafe words = mapping.bindMemory(to: Atomic<Int64>.self, capacity: Self.length / 8)
  }

  deinit { unsafe munmap(words, Self.length) }

  private subscript(index: Int) -> Int64 {
    get { unsafe words[index].load(ordering: .sequentiallyConsistent) }
    set { unsafe words[index].store(newValue, ordering: .sequentiallyConsistent) }
  }

  /// Whether all processes must end; they also end when the referee itself is gone.
  var isOver: Bool { self[Self.over] != 0 || getppid() != parent }

  /// Whether all resources are healthy again, and workers only use them.
  var isHealing: Bool { self[Self.healing] != 0 }

  /// The number of times the workers were asked to show what they see.
  var currentRound: Int64 { self[Self.round] }

  /// How many calls in a thousand to a resource fail.
  func sickness(of breaker: Int) -> Int { isHealing ? 0 : Int(self[Self.sickness + breaker]) }
}

/// The referee's side.
extension Board {
  func end() { set(Self.over, 1) }
  func heal() { set(Self.healing, 1) }
  func sicken(_ breaker: Int, permille: Int) { set(Self.sickness + breaker, Int64(permille)) }

  /// Asks all workers again what they see.
  func ask() { set(Self.round, currentRound + 1) }

  private func set(_ index: Int, _ value: Int64) {
    unsafe words[index].store(value, ordering: .sequentiallyConsistent)
  }
}

/// The sights of workers since they were asked.
extension Board {
  enum Sight: Int {
    case permitted = 0
    case rejected = 1
  }

  private func index(_ worker: Int, _ sight: Sight) -> Int {
    Self.slots + 2 * worker + sight.rawValue
  }

  /// Notes what a call saw that began in a round; only one thread of each worker does this.
  func saw(_ sight: Sight, of breaker: Int, by worker: Int, in round: Int64) {
    let index = index(worker, sight)
    let mark = Int64(1) << Int64(Self.mostBreakers)
    let before = self[index] / mark == round ? self[index] : round * mark
    set(index, before | 1 << Int64(breaker))
  }

  /// The breakers that a worker has seen in this way, as bits.
  func seen(_ sight: Sight, by worker: Int) -> Int64 {
    let mark = Int64(1) << Int64(Self.mostBreakers)
    let word = self[index(worker, sight)]
    return word / mark == currentRound ? word % mark : 0
  }
}
