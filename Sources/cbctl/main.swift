import ControlKit
import Glibc

switch ControlKit.run(arguments: Console.processArguments(), console: .system()) {
case .code(let code): exit(code)
case .signal(let number): die(of: number)
}
