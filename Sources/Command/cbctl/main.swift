import ControlKit
import Glibc

// The first process of a container has to reap orphans, so there a child runs the command.
let ending = getpid() == 1 ? FirstProcess.ending { ControlKit.run() } : ControlKit.run()
switch ending {
case .code(let code): exit(code)
case .signal(let number): die(of: number)
}
